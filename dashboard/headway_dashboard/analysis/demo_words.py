"""The words that name simulated figures, on every page and wherever their source is named."""

DEMO_WORDS = "Demo: simulated figures, no server"
DEMO_SOURCE = "demo (simulated)"
DEMO_CONTROL = "Demo: there is no server, so nothing here changes anything."
