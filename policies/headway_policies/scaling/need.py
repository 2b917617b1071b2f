"""The present needs, in instances that are not rounded yet.

The needs by arrivals and by queues are proportional to what they count, so those of servers that share a stream of
requests add up to the need of the whole stream, and to somewhat more where one of them has more than its part of what
waits. Only the sum is rounded: servers that each rounded up their own part would never ask for fewer than there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headway_policies.scaling.settings import Scaling
from headway_policies.scaling.signals import ScalingSignals, Why

#: The part that a server of several asks for beyond itself while it misses its objectives. The others do the same.
_MORE_OF_ONE = 0.25


@dataclass(frozen=True, slots=True)
class Need:
    """A number of instances, and the signal that asks for them."""

    instances: float
    why: Why


def present_needs(settings: Scaling, seen: ScalingSignals, *, more: float = 1.0) -> Iterator[Need]:
    """The need of each signal. Missed objectives ask for ``more`` than are ready."""
    yield Need(seen.offered / (settings.target_ratio * seen.capacity), Why.ARRIVALS)
    ratio, queues = settings.late_ratio, seen.queues.values()
    late = [queue for queue in queues if queue.depth and queue.age_s >= ratio * queue.objective_s]
    if late:
        drained = sum(queue.depth / queue.objective_s for queue in late)
        yield Need((seen.offered + drained) / seen.capacity, Why.QUEUE)
    if seen.kv_use is not None:
        yield Need(seen.ready * seen.kv_use / settings.kv_target_ratio, Why.MEMORY)
    if seen.attained_ratio is not None and seen.attained_ratio < settings.attained_ratio:
        yield Need(seen.ready + more, Why.OBJECTIVES)


def own_need(settings: Scaling, seen: ScalingSignals) -> Need:
    """The need of the traffic of one server: its part of a sum over all servers, which is rounded up.

    The need has no memory and no bounds: both belong to what sees the sum, since the parts move when a server comes or
    goes.
    """
    return max(present_needs(settings, seen, more=_MORE_OF_ONE), key=lambda need: need.instances)
