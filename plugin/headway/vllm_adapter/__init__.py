"""The adapter to vLLM: the only package here that imports it.

It looks for features, never at version numbers. Tried on 0.32 only; releases from 0.29 on, where
``check_admission`` appeared, have what it looks for by their sources.

    endpoint   the endpoint plugin: middleware, routes, warm-up, and the engine client turned into a policy client
    stats      the stat-logger plugin: the figures of each step, and the moment a sequence really ends
    core       the general plugin: a knob inside EngineCore, turned between two steps
    courtesy   no spinning where cores are few
    warmup     the plan of the warm-up, carried out
    keep_warm  a short request when nothing has run for a while
    dummies    the requests of both
    apart      how they run: past the gate
    progress   what EngineCore reports of its steps while they go on
    last_words why EngineCore died
    replace    another EngineCore behind a client whose own is dead
    orphans    no process of a server outlives it
    orphan_killer  the process that sees to that
    kind       the facts about vLLM that the gateway needs
    launch     ``headway serve``
"""
