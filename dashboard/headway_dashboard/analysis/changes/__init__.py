"""The changes of the page Control, in words: presets, forecasts, trials, commands, and the audit log."""
