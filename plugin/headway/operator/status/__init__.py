"""What a server says of itself: its status, its snapshot for the metrics, and its diagnosis."""
