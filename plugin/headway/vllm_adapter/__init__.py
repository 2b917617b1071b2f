"""The adapter to vLLM: the only package here that imports it.

It checks for features, never for version numbers. Tried on 0.32 only; releases from 0.29 on, where
``check_admission`` appeared, have what it looks for by their sources.

    endpoint           the endpoint plugin: middleware, routes, warm-up, and the engine client made a policy client
    stats              the stat-logger plugin: the figures of each step, and the sequences that ended
    engine_core_hooks  the general plugin: methods added to EngineCore, called between two steps
    engine_adapter     vLLM's side of the engine port
    cpu_yield          no busy waiting where cores are few
    warmup, keep_warm  the warm-up plan, and a short request after idle time
    warmup_requests, internal_requests   the requests of both, run past the gate
    progress           EngineCore's reports of a step while it runs
    death_cause        why EngineCore died
    engine_replacer    another EngineCore behind the client of a dead one
    parent_watch, orphan_killer          no process of a server outlives it
    protocol, fail_fast                  bounds on what uvicorn reads and what vLLM validates
    launch             ``headway serve``
"""
