"""The router: one desk in front of several OpenAI-compatible servers that exist already.

    addresses   which instances there are
    instances   what is known of them, and which one takes the next request
    forwarding  the exchange with the client, and with the instance that works for it
    heartbeat   asks each instance every second
    fronts      the other servers of this kind before the same instances
    engine      all instances as one engine, behind the port of ``headway.engine``; ``adapter`` is its adapter
    warmup_requests   the requests of a warm-up of instances
    endpoint, tls     the HTTP routes that are forwarded; the files of the router's own TLS
    engine_metrics    of the server that this process has started (``headway.own_server``)
    application, launch   ``headway route``: everything put together

A request waits in the one queue of the desk and is bound to an instance when it leaves that queue (late binding). Until
its first byte has been sent to the client it can be tried on another instance, so the death of one loses nothing that
waits. The desk is that of ``headway serve``: classes, presets, admin API, metrics and dashboard are the same.
"""
