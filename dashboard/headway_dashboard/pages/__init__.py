"""The pages, one module each, and the parts of a page they share: head, charts, orders."""
