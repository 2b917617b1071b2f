"""The overload of the demo: more than the engine can serve, for a bounded time.

phase      it is exceeded, then drained         figures    what became of it       report   that as text
capacity   what the full engine serves          shares     by class, in time       without  the same in vLLM's own queue
"""
