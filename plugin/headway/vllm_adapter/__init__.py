"""The adapter to vLLM: the only package here that imports it.

The adapter checks for features, never for version numbers. Engines are tried with 0.32. From 0.29 on, where
``check_admission`` appeared, releases have what it looks for (``make test-versions``); an older one ends the start.

    endpoint           the endpoint plugin: middleware, routes, warm-up, and the engine client made a policy client
    stats              the stat-logger plugin: the figures of each step, and the sequences that ended
    engine_core_hooks  the general plugin: methods added to EngineCore, called between two steps
    engine_adapter     vLLM's side of the engine port
    warmup             the warm-up and keep-warm requests
    process            EngineCore's process: its progress, death, replacement and end
    protocol           a bound on what uvicorn reads
    fail_fast          a bound on what vLLM validates
    launch             ``headway serve``
    own_server         vLLM's own launcher, as a child process of ``headway serve`` (``headway.own_server``)
    own_server_guard   one of its API servers, behind the queue of that: no gate, a fast end; ``own_server_checks``

vLLM loads the first three by name, as entry points (``pyproject.toml``), and the general plugin in every process.
"""
