"""EngineCore's process and its workers: their progress, death, replacement, caches and end.

    progress           EngineCore's reports of a step while it runs
    death_cause        why EngineCore died
    engine_replacer    another EngineCore behind the client of a dead one
    ranks              several of them behind one client, as one engine
    core_start, spare_memory   another one beside a running one, and whether memory allows that
    parent_watch, orphan_killer   no process of a server outlives it
    engine_sockets     the folder of their sockets, and what dead ones leave in it
    worker_cache       the workers' caches, cleared between two steps
    cpu_yield          a bounded busy wait where cores are few

Nothing is imported here: vLLM loads the general plugin in every process, most of which need little of this.
"""
