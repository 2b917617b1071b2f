"""The diagnosis of the page: its facts and its headline, and the alert conditions that hold now."""
