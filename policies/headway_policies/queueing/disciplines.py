"""Queueing disciplines inside one class.

``Fifo``: first come, first served. A ticket waits for earlier ones only.

``Edf``: earliest deadline first (Liu and Layland, JACM 1973). The deadline is the earliest of the ticket's queue,
first-token and total time-out. A ticket with deadline D waits only for tickets due before D. Known weak spots: a ticket
without a deadline waits as long as others have one, and under overload every ticket may be a little late; the desk
sheds what can no longer be reached. Removal leaves a dead entry in the heap; the heap is rebuilt once more than half of
it is dead, so O(log n) holds on average, not for each single call.

``Hrrn``: highest response ratio next (Brinch Hansen, 1971): the largest (wait + service) / service, that is the
largest wait in proportion to size. The sizes are bucketed by octave, [2^k, 2^(k+1)) tokens, and only the first of each
bucket is compared, exactly. The other tickets of a bucket are later and more than half as large as its first, so the
chosen one has more than half the wait/size of the best there is. Known weak spot: no bound on the wait of a large
ticket while small ones overload the server.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from math import frexp, inf
from typing import ClassVar, Protocol

from headway_policies.request import NO_TIMEOUTS, Ticket, Timeouts

_SPARE = 64


class Discipline(Protocol):
    """The waiting tickets of one class.

    ``tokens`` in ``push`` is what the ticket is expected to use in total; ``charge`` and ``correct`` account for it. A
    discipline may ignore all three. No operation but iteration may cost more than O(log n) in the number waiting.
    """

    def push(self, ticket: Ticket, tokens: float, now_s: float) -> None:
        """Add a ticket."""
        ...

    def head(self, now_s: float) -> Ticket | None:
        """The ticket to dispatch next, or None. Two calls in a row return the same."""
        ...

    def remove(self, ticket_id: int) -> Ticket | None:
        """Remove a ticket from any position; None when it is not here."""
        ...

    def charge(self, ticket: Ticket, tokens: float) -> None:
        """The ticket is dispatched: its tenant is charged what it is expected to use."""
        ...

    def correct(self, ticket: Ticket, tokens: float) -> None:
        """The ticket has ended: its tenant is charged so many tokens more (below 0: fewer) than expected."""
        ...

    def oldest(self) -> Ticket | None:
        """The ticket that was added first."""
        ...

    def newest(self) -> Ticket | None:
        """The ticket that was added last."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Ticket]:
        """All tickets, in the order they were added."""
        ...


class Fifo:
    """First come, first served. ``relegates``: a ticket may leave for the line of those that are late."""

    relegates: ClassVar[bool] = True

    def __init__(self) -> None:
        self._tickets: OrderedDict[int, Ticket] = OrderedDict()

    def push(self, ticket: Ticket, tokens: float, now_s: float) -> None:
        self._tickets[ticket.id] = ticket

    def restore(self, ticket: Ticket, tokens: float, now_s: float) -> None:
        """Add a ticket that went and came back: before all that are here now, where the order is that of arrival."""
        self.push(ticket, tokens, now_s)
        self._tickets.move_to_end(ticket.id, last=False)

    def head(self, now_s: float) -> Ticket | None:
        return next(iter(self._tickets.values()), None)

    def remove(self, ticket_id: int) -> Ticket | None:
        return self._tickets.pop(ticket_id, None)

    def charge(self, ticket: Ticket, tokens: float) -> None:
        """No charges are kept."""

    def correct(self, ticket: Ticket, tokens: float) -> None:
        """No charges are kept."""

    def owed(self, ticket: Ticket, *, alone: bool = False) -> bool:
        """Whether the tenant of the next ticket was served so little that the ticket gives its turn to no other;
        ``alone``: also where no other tenant waits.
        """
        return False

    def ahead(self, tenant: str) -> int:
        """About how many of the waiting tickets go before a new one of a tenant: all, unless a subclass knows more."""
        return len(self._tickets)

    def oldest(self) -> Ticket | None:
        return next(iter(self._tickets.values()), None)

    def newest(self) -> Ticket | None:
        return next(reversed(self._tickets.values()), None)

    def __contains__(self, ticket_id: int) -> bool:
        return ticket_id in self._tickets

    def __len__(self) -> int:
        return len(self._tickets)

    def __iter__(self) -> Iterator[Ticket]:
        return iter(self._tickets.values())


class Edf(Fifo):
    """Earliest deadline first; tickets without one come last; first come, first served among equals.

    ``terms`` are the time-outs of the class; a ticket's own can only shorten them.
    """

    def __init__(self, terms: Timeouts = NO_TIMEOUTS) -> None:
        super().__init__()
        self._terms = terms
        self._allowed_s = _allowed_s(terms)
        self._heap: list[tuple[float, float, int]] = []

    def push(self, ticket: Ticket, tokens: float, now_s: float) -> None:
        asked = ticket.asked
        allowed_s = self._allowed_s if asked is NO_TIMEOUTS else _allowed_s(asked.shortened_by(self._terms))
        self._tickets[ticket.id] = ticket
        heappush(self._heap, (ticket.arrived_s + allowed_s, ticket.arrived_s, ticket.id))

    def head(self, now_s: float) -> Ticket | None:
        while self._heap:
            ticket = self._tickets.get(self._heap[0][2])
            if ticket is not None:
                return ticket
            heappop(self._heap)
        return None

    def remove(self, ticket_id: int) -> Ticket | None:
        """Remove a ticket; its entry in the heap is dropped when it reaches the top, or with many others."""
        ticket = self._tickets.pop(ticket_id, None)
        if len(self._heap) > 2 * len(self._tickets) + _SPARE:
            self._heap = [entry for entry in self._heap if entry[2] in self._tickets]
            heapify(self._heap)
        return ticket


class ByArrival(Edf):
    """The longest-waiting ticket first, whenever it was added."""

    def push(self, ticket: Ticket, tokens: float, now_s: float) -> None:
        self._tickets[ticket.id] = ticket
        heappush(self._heap, (ticket.arrived_s, ticket.arrived_s, ticket.id))

    def oldest(self) -> Ticket | None:
        """The same as the next one."""
        return self.head(0.0)


class Hrrn(Fifo):
    """Highest response ratio next, within a factor of two; first come, first served in an octave of sizes."""

    def __init__(self) -> None:
        super().__init__()
        self._buckets: dict[int, ByArrival] = {}
        self._size_of: dict[int, float] = {}

    def push(self, ticket: Ticket, tokens: float, now_s: float) -> None:
        """Add a ticket to its bucket, by its arrival; less than one token counts as one."""
        self._tickets[ticket.id] = ticket
        size = self._size_of[ticket.id] = max(tokens, 1.0)
        self._buckets.setdefault(frexp(size)[1], ByArrival()).push(ticket, tokens, now_s)

    def head(self, now_s: float) -> Ticket | None:
        """The first ticket of a bucket with the longest wait for its size; the smaller of two equals."""

        def ratio(first: Ticket) -> tuple[float, float]:
            size = self._size_of[first.id]
            return (now_s - first.arrived_s) / size, -size

        firsts = (first for bucket in self._buckets.values() if (first := bucket.head(now_s)) is not None)
        return max(firsts, key=ratio, default=None)

    def remove(self, ticket_id: int) -> Ticket | None:
        ticket = self._tickets.pop(ticket_id, None)
        if ticket is not None:
            octave = frexp(self._size_of.pop(ticket_id))[1]
            bucket = self._buckets[octave]
            bucket.remove(ticket_id)
            if not len(bucket):
                del self._buckets[octave]
        return ticket


def _allowed_s(timeouts: Timeouts) -> float:
    """The time from its arrival until a ticket is due; infinite without a time-out."""
    stages = (timeouts.queue_s, timeouts.first_token_s, timeouts.total_s)
    return min((stage for stage in stages if stage is not None), default=inf)
