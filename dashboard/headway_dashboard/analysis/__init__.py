"""The pure layer: what the pages show, computed from series and status answers, with no Streamlit and no I/O.

Expressions name the metrics, panels and tiles are made of them, and the headline is the diagnosis of the server.
"""
