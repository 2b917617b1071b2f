"""What the newest figures and the answers of the admin API say of a server, and of several together."""
