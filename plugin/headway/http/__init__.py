"""The HTTP side: the entrance every request passes, the words of a refusal, and the admin API."""
