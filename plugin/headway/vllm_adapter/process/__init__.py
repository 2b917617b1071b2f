"""EngineCore's process and its workers: their progress, death, replacement, caches and end.

    progress           EngineCore's reports of a step while it runs
    death_cause        the cause of EngineCore's death
    engine_replacer    another EngineCore behind the client of a dead one
    ranks              several EngineCores behind one client, as one engine
    core_start, spare_memory   another EngineCore beside a running one, and whether memory allows that
    parent_watch, orphan_killer   no process of a server outlives it
    interrupted_start  a signal while the engine starts
    engine_sockets     the folder of their sockets, and the files that dead engines leave in it
    worker_cache       the workers' caches, cleared between two steps
    worker_memory      the bytes of weights and KV cache
    cpu_yield          a bounded busy wait where cores are few

Nothing is imported here: vLLM loads the general plugin in every process, most of which need little of this.
"""
