"""The deadlines of all tickets, and which of them have come.

A binary heap with lazy deletion: setting and dropping a deadline is O(log n), the next one O(1) amortised. Dropped
records stay in the heap until they surface, or until they outnumber the live ones and the heap is rebuilt.
"""

from __future__ import annotations

import heapq
from math import inf

from headway_policies.desk.books.record import Record

_SLACK = 64


class Deadlines:
    """A deadline for each ticket id. None comes before ``earliest_s``, which may be that of a dropped ticket."""

    def __init__(self) -> None:
        self._at_s: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []
        self.earliest_s = inf

    def set(self, ticket_id: int, at_s: float) -> None:
        """Give a ticket its deadline, in place of an earlier one."""
        self._at_s[ticket_id] = at_s
        heapq.heappush(self._heap, (at_s, ticket_id))
        if at_s < self.earliest_s:
            self.earliest_s = at_s
        if len(self._heap) > 2 * len(self._at_s) + _SLACK:
            self._heap = [(due_s, id_) for id_, due_s in self._at_s.items()]
            heapq.heapify(self._heap)

    def hasten(self, ticket_id: int, at_s: float) -> None:
        """Give a ticket this deadline unless it has an earlier one."""
        known_s = self._at_s.get(ticket_id)
        if known_s is None or at_s < known_s:
            self.set(ticket_id, at_s)

    def drop(self, ticket_id: int) -> None:
        """Forget a ticket's deadline."""
        self._at_s.pop(ticket_id, None)

    def watch(self, record: Record) -> None:
        """Set the deadline of a ticket that runs.

        A deadline that moves to a later time is left as it is, and moved when it comes: dispatch and tokens cost
        nothing then.
        """
        due = record.run_due()
        self._put(record.ticket.id, None if due is None else due[0])

    def renew(self, record: Record) -> None:
        """Set the deadline of a waiting ticket, replacing the deadline of its run."""
        self._put(record.ticket.id, record.queue_due_s)

    def of(self, ticket_id: int) -> float | None:
        """The deadline of a ticket, or None."""
        return self._at_s.get(ticket_id)

    def next_s(self, unless_after_s: float | None = None) -> float | None:
        """The earliest deadline of all, or None: also None, cheaply, when it is not before ``unless_after_s``."""
        while self._heap:
            due_s, ticket_id = self._heap[0]
            if unless_after_s is not None and due_s >= unless_after_s:
                return None
            if self._at_s.get(ticket_id) == due_s:
                self.earliest_s = due_s
                return due_s
            heapq.heappop(self._heap)
        self.earliest_s = inf
        return None

    def pop_due(self, now_s: float) -> int | None:
        """Take out one ticket whose deadline has come, earliest first; None when none is due."""
        while self._heap and self._heap[0][0] <= now_s:
            due_s, ticket_id = heapq.heappop(self._heap)
            if self._at_s.get(ticket_id) == due_s:
                del self._at_s[ticket_id]
                return ticket_id
        self.earliest_s = self._heap[0][0] if self._heap else inf
        return None

    def _put(self, ticket_id: int, at_s: float | None) -> None:
        if at_s is None:
            self.drop(ticket_id)
        else:
            self.set(ticket_id, at_s)
