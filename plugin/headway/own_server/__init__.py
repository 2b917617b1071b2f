"""vLLM's own launcher behind Headway's queue: ``headway serve MODEL --api-server-count N``, or its front end in Rust.

    process   the child process with vLLM's launcher, the engine and its API servers
    engine    the facts of that engine, and its replacement when it has died
    launch    everything put together

This process has the queue and the public port; it forwards as ``headway route`` does (``headway.router``), to one
instance that it has started itself. The process knows nothing of vLLM but what the child process reports.
"""
