"""A ranking of all instances, for a balancer that sends each request on at once because every instance has a queue.

First the instances with a free seat, in the order in which the router would choose them. Then the full ones, the
smallest number of requests for each weighted seat first: join-shortest-queue, where ``running`` counts what waits too.

Cost: O(instances^2), for the tens of instances of one balancer.
"""

from __future__ import annotations

from collections.abc import Sequence

from headway_policies.routing.instance import Instance
from headway_policies.routing.router import Demand, Router


def ranked(router: Router, demand: Demand, instances: Sequence[Instance]) -> list[str]:
    """The names of all instances, the best one first. Ties go to the one that stands first."""
    left, names = list(instances), []
    while (chosen := router.choose(demand, left)) is not None:
        names.append(chosen)
        left = [instance for instance in left if instance.name != chosen]
    return names + [instance.name for instance in sorted(left, key=lambda instance: -instance.free_share)]
