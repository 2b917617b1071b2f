"""The memory of the processes: readings, what is done about them, and Python's collector."""
