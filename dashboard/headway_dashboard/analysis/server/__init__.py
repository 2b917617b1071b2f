"""The state of a server, and of several together, by the newest figures and the answers of the admin API."""
