"""Forwarding: the exchange with the client and with the instance that works for it.

    relay       the exchange with the client: its request is read, and the pieces of the response are sent
    exchange    one HTTP exchange with an instance; ``forwarded``, ``usage``, ``token_events``, ``unsent`` are its parts
    tries       when a request is tried again
    call        its present step, which can be interrupted

A fleet on Ray Serve (``deploy/ray_serve``), which has no desk before its servers, shares it, and what an instance says.
"""
