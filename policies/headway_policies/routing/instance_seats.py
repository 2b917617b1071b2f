"""The number of sequences that a router may send to an instance, by the instance's own figures.

An instance with Headway says its limit, which grows only while requests wait for it; these wait in front. So a router
sends some more than the limit, the *room*, and the limit follows as far as the instance bears it. An instance without
Headway does not say how many sequences it runs at once: the number that its operator has named counts, until requests
wait in the instance and it runs no more for that.

    requests wait there, and it takes no more          the room is halved, to one
    it takes more, or all of its seats are in use      the room is doubled, to half of what it takes

A few requests wait in an instance for other reasons, a grammar that is compiled or a long prompt: they say nothing of
its seats. Reports of many requests are believed by halves.

Requests that wait in an instance are served there in the order of that instance: the room bounds how much that is.
Additive increase would need minutes to find the size of a large engine (slow start; Jacobson, Congestion Avoidance and
Control, SIGCOMM 1988).
"""

from __future__ import annotations

from dataclasses import dataclass

_MOST_RATIO = 0.5
_FEW_WAITING, _WAITING_RATIO = 2, 0.125


@dataclass(frozen=True, slots=True)
class SeatReading:
    """The report of an instance at one moment: sequences ``running`` and requests ``waiting`` there.

    ``limit`` is its live limit and ``reach`` the most that the limit may come to; None where it has none.
    """

    running: int
    waiting: int
    limit: int | None = None
    reach: int | None = None


class InstanceSeats:
    """The seats of one instance; ``usual`` is their number where the instance does not say its own."""

    def __init__(self, usual: int) -> None:
        self.usual = usual
        self._takes = usual
        self._limit: int | None = None
        self._most = usual
        self._room = 0
        self._waited: SeatReading | None = None

    @property
    def most(self) -> int:
        """The largest known number of sequences that the instance may run at once."""
        return self._most

    @property
    def seats(self) -> int:
        """The sequences that may be sent there now."""
        return min(self._most, self._takes + self._room) if self._takes else 0

    def read(self, seen: SeatReading, sent: int) -> None:
        """Learn from a reading; at its request ``sent`` sequences were at the instance, other clients' included."""
        if seen.limit is None:
            self._read_plain(seen, sent)
        else:
            self._read_limit(seen, seen.limit, sent)

    def _read_limit(self, seen: SeatReading, limit: int, sent: int) -> None:
        reach = limit if seen.reach is None else max(limit, seen.reach)
        first, grew = self._limit is None, limit > self._takes
        used = sent >= self.seats and not seen.waiting
        self._limit, self._takes, self._most = limit, limit, reach
        if first or grew or used:
            self._widen()
        elif seen.waiting:
            self._narrow()

    def _read_plain(self, seen: SeatReading, sent: int) -> None:
        if self._limit is not None:  # another server stands there now
            self._limit, self._takes, self._room = None, self.usual, 0
        self._most = self.usual
        before, self._waited = self._waited, seen if seen.waiting else None
        many = seen.waiting >= max(_FEW_WAITING, _WAITING_RATIO * seen.running)
        if self._takes < min(seen.running, self.usual):  # more than was known
            self._takes = min(self.usual, seen.running)
            self._widen()
        elif before is not None and many and 0 < seen.running <= before.running:
            self._takes = max(min(self._takes, seen.running), self._takes // 2, 1)
            self._narrow()
        elif not seen.waiting and self._takes < self.usual and sent >= self.seats:
            self._takes = min(self.usual, self.seats)
            self._widen()

    def _widen(self) -> None:
        self._room = max(1, min(2 * self._room, int(_MOST_RATIO * self._takes)))

    def _narrow(self) -> None:
        self._room = max(1, self._room // 2)
