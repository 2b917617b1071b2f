"""The catalogue for other programs: a Grafana board, the rules of Prometheus, and the table of the documentation.

All three are made of the expressions that the pages read and of the bounds in ``analysis.catalogue.thresholds``.
Nothing here does I/O but ``__main__``, and nothing needs Streamlit.
"""
