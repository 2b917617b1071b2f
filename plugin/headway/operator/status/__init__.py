"""The state of a server: its status, its snapshot for the metrics, and its diagnosis."""
