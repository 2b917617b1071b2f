"""vLLM's HTTP API: its routes (``routes``), and what a request asks for (``asked``, by the ``fields`` of its body).

It imports nothing else of Headway.
"""
