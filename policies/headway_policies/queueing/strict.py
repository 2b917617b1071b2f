"""Strict priority between classes: the most urgent class that has a waiting ticket is served first.

Known weakness: a constant stream of urgent requests starves the classes below it for as long as it lasts; only their
queue time-out ends the wait. ``AgeingOrder`` and ``WeightedOrder`` bound that wait; each states its bound.
"""

from __future__ import annotations

from collections.abc import Collection

from headway_policies.queueing.class_queues import ClassQueues
from headway_policies.request import Ticket


class StrictOrder(ClassQueues):
    """Strict priority between classes."""

    def head(self, now_s: float, excluded: Collection[str] = ()) -> Ticket | None:
        for queue in self._queues:
            if queue.waiting and queue.name not in excluded:
                return queue.head(now_s)
        return None
