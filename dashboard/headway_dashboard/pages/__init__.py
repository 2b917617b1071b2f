"""The pages, one module each, and what they share: ``frame``, ``head`` (the choices), ``page_reading``, ``charts``."""
