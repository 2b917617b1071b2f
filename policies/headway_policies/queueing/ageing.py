"""Priority with ageing between classes.

Every ``step_s`` of waiting counts as one class. The next class is the one whose longest-waiting ticket has the smallest
``arrived_s - rank * step_s``. Time moves all keys alike, so nothing is ever re-sorted.

Bound, with first come, first served inside the classes: only a ticket that arrived less than ``step_s * (levels - 1)``
later can overtake a ticket of the lowest class, so ``wait_low <= step_s * (levels - 1) + backlog_ahead / rate``, with
the backlog at the end of that time. With another discipline inside, the same bound holds for the turn of its class; the
wait of a single ticket follows from the discipline. Known weak spots: under lasting overload the order approaches first
come, first served, and a ticket that its own discipline keeps passing over lends its age to its whole class.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf

from headway_policies.queueing.class_queues import ClassQueues, MakeDiscipline, fifo
from headway_policies.request import PriorityClass, Ticket


class AgeingOrder(ClassQueues):
    """The class whose longest-waiting ticket, aged, is most urgent; the more urgent class among equals."""

    def __init__(
        self, classes: Mapping[str, PriorityClass], make_discipline: MakeDiscipline = fifo, step_s: float = 10.0
    ) -> None:
        super().__init__(classes, make_discipline)
        self._step_s = step_s

    def head(self, now_s: float, excluded: Collection[str] = ()) -> Ticket | None:
        best, best_s = None, inf
        for queue in self._queues:
            oldest = queue.oldest() if queue.waiting and queue.name not in excluded else None
            if oldest is not None and (key_s := oldest.arrived_s - queue.rank * self._step_s) < best_s:
                best, best_s = queue, key_s
        return None if best is None else best.head(now_s)
