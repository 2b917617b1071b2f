"""The pages. They draw; what they draw is decided elsewhere."""
