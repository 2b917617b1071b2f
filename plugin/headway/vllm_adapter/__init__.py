"""The adapter to vLLM: the only package here that imports it.

It checks for features, never for version numbers. Tried on 0.32 only; releases from 0.29 on, where
``check_admission`` appeared, have what it looks for by their sources.

    endpoint           the endpoint plugin: middleware, routes, warm-up, and the engine client made a policy client
    stats              the stat-logger plugin: the figures of each step, and the sequences that ended
    engine_core_hooks  the general plugin: methods added to EngineCore, called between two steps
    engine_adapter     vLLM's side of the engine port
    warmup             the warm-up and keep-warm requests
    process            EngineCore's process: its progress, death, replacement and end
    protocol           a bound on what uvicorn reads
    fail_fast          a bound on what vLLM validates
    launch             ``headway serve``
    front_end          one of several API servers of an engine: no gate, a key, a fast end
    front_end_group, front_end_processes   the process that starts them and their engine

vLLM loads the first three by name, as entry points (``pyproject.toml``), and the general plugin in every process.
"""
