"""The changes of the page Control, in words: presets, forecasts, trials, orders, and the audit log."""
