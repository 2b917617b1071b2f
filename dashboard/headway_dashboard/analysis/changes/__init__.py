"""What the page Control changes, in words: presets, forecasts, trials, orders, and the audit log."""
