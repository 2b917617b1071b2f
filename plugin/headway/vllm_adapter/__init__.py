"""The adapter to vLLM: the only package of Headway that imports vLLM.

The adapter checks for features, never for version numbers. Engines are tried with 0.32. From 0.28 on releases have what
the adapter needs (``make test-versions``); an older release ends the start. ``check_admission`` appeared with 0.29:
before, a request waits for its seat in ``generate``, its prompt rendered.

    endpoint           the endpoint plugin: middleware, routes, warm-up, and the engine client made a policy client
    stats              the stat-logger plugin: the figures of each step, and the sequences that ended
    engine_core_hooks  the general plugin: methods added to EngineCore, called between two steps
    engine_adapter     vLLM's side of the engine port
    warmup_requests    the requests of the warm-up, in vLLM's terms
    process            EngineCore's process: its progress, death, replacement and end
    grammars           the check of a grammar before the engine compiles it
    fail_fast          a bound on what vLLM validates
    step_shaper        the step policy inside EngineCore
    vllm_routes        the application's routes, compared with the table of the route guard
    waiting_metric     vLLM's count of waiting requests with Headway's queue added
    logs               Headway's lines in vLLM's format, and vLLM's lines without the content of requests
    launch             ``headway serve``
    own_server         vLLM's own launcher, as a child process of ``headway serve`` (``headway.own_server``)
    own_server_guard   an API server behind the queue of ``headway serve``: no gate, a fast end; ``own_server_checks``

vLLM loads the first three by name, as entry points (``pyproject.toml``), and the general plugin in every process.
"""
