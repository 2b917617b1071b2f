"""The generated pages of the documentation, and the check of all links and names."""
