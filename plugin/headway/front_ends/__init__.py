"""Several API servers of one engine behind one desk: ``headway serve MODEL --api-server-count N``.

    group     the process that has the engine and its API servers, a child of this one
    engine    what is known of that engine, and another one in its place when it has died
    launch    everything put together

This process has the desk and the public port; it forwards to the API servers as ``headway route`` does to instances
(``headway.router``). Each of them may fill all seats of the engine, and all together not more. It knows nothing of vLLM
but the arguments that the group reports.
"""
