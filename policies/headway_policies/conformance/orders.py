"""Does a line, or an order between classes, keep what its protocol promises?

Pseudo-random histories of arrivals, dispatches, cancellations, returns and corrections run against a book that is kept
apart: a plain list for each class. Checked after every step: nothing is lost or doubled, the head is one of those who
wait and stays the same when asked again, a ticket can be taken out from anywhere, barred classes are passed over, and
all counts and views agree. At the end everybody comes out. Not checked: which of the waiting is the head, and the cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random

from headway_policies.class_lines import MakeLine, fifo
from headway_policies.classes import PriorityClass
from headway_policies.lines import Line
from headway_policies.ordering import Order
from headway_policies.ticket import NO_TIMEOUTS, Ticket, Timeouts

_STEPS = 250
_CLASSES = {
    "lowest": PriorityClass(priority=-7, max_waiting=1000, queue_timeout_s=300.0),
    "urgent": PriorityClass(priority=5, max_waiting=1000, queue_timeout_s=5.0),
    "middle": PriorityClass(priority=0, max_waiting=1000),
}
_RANKED = ("urgent", "middle", "lowest")
_STRANGER = -1


def check_line(make_line: Callable[[], Line], seeds: Iterable[int] = range(20)) -> None:
    """Raise AssertionError unless the lines that ``make_line`` makes keep the promises of ``Line``."""
    for seed in seeds:
        _LineHistory(make_line(), seed).run()


def check_order(
    make_order: Callable[[Mapping[str, PriorityClass], MakeLine], Order],
    make_line: MakeLine = fifo,
    seeds: Iterable[int] = range(20),
) -> None:
    """Raise AssertionError unless the orders that ``make_order`` makes keep the promises of ``Order``."""
    for seed in seeds:
        _OrderHistory(make_order(_CLASSES, make_line), seed).run()


class _History:
    """A seeded history. ``book`` holds the waiting tickets of each class, in the order they were put in."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - repeatable, not secret
        self.where = f"seed {seed}, before the first step"
        self.seed = seed
        self.now_s = 0.0
        self.book: dict[str, list[Ticket]] = {name: [] for name in _RANKED}
        self.gone: list[tuple[Ticket, str]] = []
        self.made = 0

    def run(self) -> None:
        """All steps, each followed by a check of everything, and then the drain."""
        self.check()
        for step in range(_STEPS):
            self.where = f"seed {self.seed}, step {step}"
            self.now_s += self.random.choice((0.0, 0.001, 1.0, 40.0))
            move = self.random.choice((self.arrive, self.arrive, self.dispatch, self.cancel, self.come_back, self.end))
            move()
            self.check()
        self.where = f"seed {self.seed}, while draining"
        while self.waiting():
            self.dispatch()
            self.check()

    def waiting(self) -> list[Ticket]:
        """All that wait, class by class."""
        return [ticket for name in _RANKED for ticket in self.book[name]]

    def arrive(self) -> None:
        """A new ticket."""
        self.made += 1
        asked = Timeouts(total_s=self.random.uniform(0.1, 100.0)) if self.random.random() < 0.5 else NO_TIMEOUTS
        own, tenant = self.random.choice(_RANKED), self.random.choice(("", "a", "b", "c"))
        self.put(Ticket(self.made, own, self.now_s, tenant, asked=asked), self.class_for(own))

    def come_back(self) -> None:
        """A ticket that has left is put in again, into the class it was in."""
        if self.gone:
            self.put(*self.gone.pop(self.random.randrange(len(self.gone))))

    def cancel(self) -> None:
        """One of those who wait is taken out; a stranger and one that has gone are not here."""
        waiting = self.waiting()
        if waiting:
            self.take(self.random.choice(waiting))
        absent = self.gone[-1][0].id if self.gone else _STRANGER
        self.expect(self.remove(absent) is None, f"removing ticket {absent}, which is not here, gave something")

    def class_for(self, own: str) -> str:
        """The class a newcomer waits in."""
        return own

    def put(self, ticket: Ticket, name: str) -> None:
        """Put a ticket in, here and in the book."""
        self.push(ticket, name, self.random.choice((1.0, 80.0, 4096.0)))
        self.book[name].append(ticket)

    def take(self, ticket: Ticket) -> None:
        """Take a waiting ticket out, here and in the book."""
        name = next(name for name, tickets in self.book.items() if ticket in tickets)
        self.expect(self.remove(ticket.id) is ticket, f"removing ticket {ticket.id} did not give it back")
        self.expect(self.remove(ticket.id) is None, f"ticket {ticket.id} could be removed twice")
        self.book[name].remove(ticket)
        self.gone.append((ticket, name))

    def go(self, head: Ticket | None, allowed: list[Ticket]) -> None:
        """The head, if there is one, goes to the engine."""
        self.expect(head is not None or not allowed, f"nobody is the head, though {len(allowed)} wait")
        if head is not None:
            self.expect(any(head is one for one in allowed), f"the head, ticket {head.id}, is none of those it may be")
            name = next(name for name, tickets in self.book.items() if head in tickets)
            self.charge(head, name, self.random.choice((1.0, 80.0, 4096.0)))
            self.take(head)

    def end(self) -> None:
        """A ticket that has left is booked with more or less than was guessed."""
        if self.gone:
            self.correct(*self.random.choice(self.gone), self.random.choice((-4000.0, -1.0, 0.0, 9.0, 5000.0)))

    def expect(self, kept: bool, complaint: str) -> None:
        """Raise when a promise was not kept."""
        if not kept:
            raise AssertionError(f"{self.where}: {complaint}")

    def same(self, what: str, found: Iterable[Ticket | None], expected: Iterable[Ticket | None]) -> None:
        """Raise when two sequences of tickets differ."""
        found_ids, expected_ids = _ids(found), _ids(expected)
        self.expect(found_ids == expected_ids, f"{what}: {found_ids}, expected {expected_ids}")

    def check(self) -> None:
        """Everything that must hold between two steps."""
        raise NotImplementedError

    def dispatch(self) -> None:
        """The head goes."""
        raise NotImplementedError

    def push(self, ticket: Ticket, name: str, tokens: float) -> None:
        """To the policy."""
        raise NotImplementedError

    def remove(self, ticket_id: int) -> Ticket | None:
        """To the policy."""
        raise NotImplementedError

    def charge(self, ticket: Ticket, name: str, tokens: float) -> None:
        """To the policy."""
        raise NotImplementedError

    def correct(self, ticket: Ticket, name: str, tokens: float) -> None:
        """To the policy."""
        raise NotImplementedError
