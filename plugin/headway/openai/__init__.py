"""vLLM's HTTP API: its routes (``routes``), and what a request asks for (``asked``, by the ``fields`` of its body).

The package imports nothing else of Headway.
"""
