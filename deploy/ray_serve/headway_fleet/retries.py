"""Which answers and losses allow another try on another replica, before the client has been sent anything.

    the server or its replica has ended     once more, on a replica that has not had it; never a third time
    its server could not be reached         on every other replica
    503 draining, not_ready, engine_lost,   on every other replica; the last answer where all of them say so
        out_of_memory, too_many_connections
    any other answer                        it is the client's: a queue that is full, a time-out, an error of its own

Two lost servers are the most, as for the engines of one server: a request that ends each server that runs it would
otherwise end the whole fleet.
"""

from __future__ import annotations

from headway_fleet.messages import Head

MOST_LOSSES = 2
_SERVICE_UNAVAILABLE = 503
_ELSEWHERE = frozenset({"draining", "not_ready", "engine_lost", "out_of_memory", "too_many_connections"})


def goes_elsewhere(head: Head) -> bool:
    """Whether another replica may serve what this one has answered."""
    return head.status == _SERVICE_UNAVAILABLE and head.header("x-headway-reason") in _ELSEWHERE
