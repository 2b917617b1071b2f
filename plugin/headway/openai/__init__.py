"""vLLM's HTTP API: its routes, and what Headway knows of each (``routes``). It imports nothing else of Headway."""
