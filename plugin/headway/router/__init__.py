"""The router: one desk in front of several OpenAI-compatible servers that exist already.

    addresses   which instances there are
    credentials the key that they get, and the files of the router's own TLS
    fronts      the other servers of this kind before the same instances
    discovery   instances that come and go: the addresses of DNS names
    reading     what an instance says of itself: its limit, its load, its progress, its model
    dialects    where each maker's server says that, and under which names
    instance    one instance: its health, its load, what was sent to it
    pool        all of them: which one takes the next request, and the requests that wait for a seat
    heartbeat   asks each instance every second
    exchange    one HTTP exchange with an instance; ``forwarded``, ``usage``, ``unsent`` are its parts
    tries       when a request is tried again
    relay       the exchange with the client: its request is read, and the pieces of the response are sent
    engine      all instances as one engine, behind the port of ``headway.engine``; ``adapter`` is its adapter
    step_reports              what the instances do, as steps of that engine: by ``token_events`` and ``stream_pace``
    warmup_requests           the requests of a warm-up of instances
    endpoint    the HTTP routes that are forwarded
    metrics, engine_metrics   of the instances; of the server that this process has started (``headway.own_server``)
    launch      ``headway route``: everything put together

A request waits in the one queue of the desk and is bound to an instance when it leaves that queue (late binding). Until
its first byte has been sent to the client it can be tried on another instance, so the death of one loses nothing that
waits. The desk is that of ``headway serve``: classes, presets, admin API, metrics and dashboard are the same.

A fleet on Ray Serve (``deploy/ray_serve``) has no desk before its servers. It shares ``exchange``, ``reading``,
``relay`` and ``tries``.
"""
