"""Adapters (LoRA): the bound on how many different ones run, and the tickets that are set aside for it.

An engine computes at most ``max_loras`` different adapters at once. vLLM keeps a request of another one waiting on its
seat, for as long as requests of those that run keep coming (v1/core/sched/scheduler.py). Here such a ticket takes no
seat: when its turn comes it is set aside, and those behind it go, so that the requests of an adapter run together (as
in Chameleon, arXiv 2411.17741). A place comes free when no request of an adapter runs any more. The most urgent ticket
aside gets it, before all that wait, for its turn has been. The others of its adapter take their own places again.

Bound on the wait: an adapter is due when ``PATIENCE`` mean times that a request runs have passed since a ticket of it
was set aside and none has been dispatched. Then the adapter with the fewest requests is closed, of those that have had
their place for one such time: no ticket of it goes before one of the adapter that has been due longest, which waits for
the requests of the closed one that run and for none that comes later. A ticket of the model itself neither waits nor
makes any wait. The patience of an adapter whose tickets have all given up outlasts them for ``PATIENCE`` mean times,
at ``REMEMBERED`` adapters at the most: clients that give up and ask again are not passed over for ever.

Before a place changes hands it is idle in part, while the last requests of its adapter run: with less patience more of
the engine is lost than the shorter waits are worth (``tests/benchmarks/adapters.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import inf
from typing import NamedTuple

from headway_policies.request import Ticket

#: In mean times that a request runs.
PATIENCE = 8
#: Adapters without a ticket aside whose patience is kept.
REMEMBERED = 256


class Aside(NamedTuple):
    """A ticket that is set aside, and the class in whose queue it was."""

    ticket: Ticket
    class_name: str
    priority: int


class Adapters:
    """The adapters that run, ``most`` different ones at once, and the ``lines`` of those set aside: by adapter and id,
    in the order in which they were. Every call is O(1), but ``claim``: O(adapters), and O(tickets aside) where a place
    is free.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = inf if most is None else most
        self.lines: dict[str, dict[int, Aside]] = {}
        self._running: dict[str, int] = {}
        self._since_s: dict[str, float] = {}  # when its first ticket was set aside that none has been dispatched after
        self._left_s: dict[str, float] = {}  # of these, when the last one aside was gone; the first to leave is first
        self._began_s: dict[str, float] = {}  # when it got the place of another one
        self._runs_s = inf
        self._closed: str | None = None

    def may_go(self, ticket: Ticket) -> bool:
        """Whether the ticket's adapter lets the engine begin at once."""
        return ticket.adapter is None or self._open(ticket.adapter)

    def has_turn(self) -> bool:
        """Whether a place is open for a ticket aside: one that does not fit yet goes before all that come."""
        return any(map(self._open, self.lines))

    def has(self, adapter: str, more: int) -> None:
        """The engine has so many tickets of an adapter more (below 0: fewer)."""
        number = self._running.get(adapter, 0) + more
        if number:
            self._running[adapter] = number
        else:
            del self._running[adapter]
            self._began_s.pop(adapter, None)
        if more > 0 and adapter not in self.lines:
            self._drop(adapter)

    def holds(self, ticket: Ticket) -> bool:
        """Whether a ticket is set aside."""
        return ticket.adapter in self.lines and ticket.id in self.lines[ticket.adapter]

    def set_aside(self, ticket: Ticket, class_name: str, priority: int, now_s: float) -> None:
        """Set a ticket aside that may not go."""
        assert ticket.adapter is not None
        while self._left_s and next(iter(self._left_s.values())) <= now_s - PATIENCE * self._runs_s:
            self._drop(next(iter(self._left_s)))
        self._left_s.pop(ticket.adapter, None)
        self.lines.setdefault(ticket.adapter, {})[ticket.id] = Aside(ticket, class_name, priority)
        self._since_s.setdefault(ticket.adapter, now_s)

    def forget(self, ticket: Ticket, now_s: float) -> bool:
        """Forget a ticket; False where it is not aside."""
        if ticket.adapter is None or not self.holds(ticket):
            return False
        del self.lines[ticket.adapter][ticket.id]
        if not self.lines[ticket.adapter]:
            del self.lines[ticket.adapter]
            self._leave(ticket.adapter, now_s)
        return True

    def scatter(self, now_s: float) -> None:
        """All tickets aside take places in an order again."""
        for adapter in self.lines:
            self._leave(adapter, now_s)
        self.lines.clear()

    def returning(self) -> list[str]:
        """The adapters that have tickets aside though they run, and any ticket of theirs may go."""
        return [adapter for adapter in self.lines if adapter in self._running and adapter != self._closed]

    def claim(self, barred: Collection[str], runs_s: float, now_s: float) -> Ticket | None:
        """The ticket aside that goes next, of the classes that are not barred; None where none may go. A request runs
        for ``runs_s`` on the mean, infinite where that is not known.
        """
        due_s, best, self._runs_s = now_s - PATIENCE * runs_s, None, runs_s
        oldest_first = sorted(self.lines, key=self._since_s.__getitem__)
        self._close(oldest_first[0], due_s, now_s - runs_s)
        for adapter in filter(self._open, oldest_first):
            line = (aside for aside in self.lines[adapter].values() if aside.class_name not in barred)
            first = max(line, key=lambda aside: aside.priority, default=None)
            if first is not None and (best is None or first.priority > best.priority):
                best = first
            if best is not None and self._since_s[adapter] <= due_s:
                break
        if best is None:
            return None
        self._began_s = {name: began_s for name, began_s in self._began_s.items() if name in self._running}
        self._began_s[best.ticket.adapter or ""] = now_s
        return best.ticket

    def __iter__(self) -> Iterator[Aside]:
        for line in self.lines.values():
            yield from line.values()

    # ------------------------------------------------------------------ inside

    def _leave(self, adapter: str, now_s: float) -> None:
        """No ticket of an adapter is aside any more."""
        self._left_s[adapter] = now_s
        if len(self._left_s) > REMEMBERED:
            self._drop(next(iter(self._left_s)))

    def _drop(self, adapter: str) -> None:
        self._since_s.pop(adapter, None)
        self._left_s.pop(adapter, None)

    def _open(self, adapter: str) -> bool:
        if adapter in self._running:
            return adapter != self._closed
        return len(self._running) < self.most

    def _close(self, oldest: str, due_s: float, before_s: float) -> None:
        """Close an adapter that has its place since before then, while the one that waits longest is due and no place
        is free for it.
        """
        if self._since_s[oldest] > due_s or oldest in self._running or len(self._running) < self.most:
            self._closed = None
        elif self._closed not in self._running:
            old = [adapter for adapter in self._running if self._began_s.get(adapter, -inf) <= before_s]
            self._closed = min(old, key=self._running.__getitem__, default=None)
