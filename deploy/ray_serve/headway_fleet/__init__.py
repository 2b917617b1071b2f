"""Servers with Headway as the replicas of a Ray Serve application.

settings        what a fleet is told
app             the application: the front, the replicas, how they are routed to and how many there are
front           the ingress: it forwards each request, and again where a replica was lost before its first output
retries         which answers and losses allow another try
targets         which routes of the servers are open to clients
headers         which headers pass from a client to a server, and back
messages        what front and replicas send each other
fleet_router    Ray Serve's request router, with the routing policy of Headway
load_view       the load of every replica, as one router knows it
replica         a replica: one server and what Ray Serve asks of it
server_process  the ``headway serve`` of a replica: start, readiness, drain, end
reading         the figures of a server, from one scrape of its metrics
fleet_scaling   Ray Serve's autoscaling policy, with the scaling policy of Headway
signals         the readings of all replicas as the signals of that policy
listing         the files that name the servers, for Prometheus and the dashboard

``fleet_router``, ``fleet_scaling``, ``replica``, ``front`` and ``app`` import Ray; nothing else here does.
"""
