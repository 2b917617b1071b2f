"""Servers with Headway as the replicas of a Ray Serve application.

settings        what a fleet is told
app             the application: the front, the replicas, how they are routed to and how many there are
front           the ingress, a ``headway.router.forwarding.relay`` whose instances are the replicas
client_requests which requests pass from a client to a server, and with what
forwarding      a request to a replica, and to another one where that was lost before its first output
fleet_router    Ray Serve's request router, with the routing policy of Headway
replica         a replica: one server and what Ray Serve asks of it
server          the ``headway serve`` of a replica: start, requests, drain, end
figures         what a server says of itself, from one scrape of its metrics
fleet_scaling   Ray Serve's autoscaling policy, with the scaling policy of Headway

``app``, ``fleet_router``, ``front`` and ``replica`` import Ray; nothing else here does. The work that ``headway route``
has as well, HTTP with a server, reading its load, its tries and its clients, is imported from ``headway.router``.
"""
