"""The decisions of ``headway serve`` before vLLM starts: environment, compiler, memory, seats."""
