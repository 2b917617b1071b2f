"""The log lines of a vLLM process: Headway's in vLLM's format, and vLLM's without the content of requests."""
