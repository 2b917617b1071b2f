"""Conformance suite for queueing disciplines and orders between classes.

Pseudo-random histories of arrivals, dispatches, cancellations, returns and corrections run against an independent
reference: a plain list for each class. Checked after every step: no ticket is lost or duplicated, the head is a waiting
ticket and stays the same on a second call, a ticket can be removed from any position, excluded classes are skipped, and
all counts and views agree. At the end all tickets leave. Not checked: which waiting ticket is the head, and the cost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from random import Random

from headway_policies.queueing import Discipline, MakeDiscipline, Order, fifo
from headway_policies.request import NO_TIMEOUTS, PriorityClass, Ticket, Timeouts

_STEPS = 250
_UNKNOWN_ID = -1
_PREFIXES = ((), (1,), (1, 2), (1, 2, 3), (1, 2, 4), (5, 6))
_ONLY = {"only": PriorityClass(priority=0, max_waiting=1000)}
_CLASSES = {
    "lowest": PriorityClass(priority=-7, max_waiting=1000, queue_timeout_s=300.0),
    "urgent": PriorityClass(priority=5, max_waiting=1000, queue_timeout_s=5.0),
    "middle": PriorityClass(priority=0, max_waiting=1000),
}


def check_discipline(make_discipline: Callable[[], Discipline], seeds: Iterable[int] = range(20)) -> None:
    """Raise AssertionError unless the disciplines of ``make_discipline`` fulfil the protocol ``Discipline``."""
    for seed in seeds:
        _History(_SingleClassOrder(make_discipline()), _ONLY, seed).run()


def check_order(
    make_order: Callable[[Mapping[str, PriorityClass], MakeDiscipline], Order],
    make_discipline: MakeDiscipline = fifo,
    seeds: Iterable[int] = range(20),
) -> None:
    """Raise AssertionError unless the orders that ``make_order`` makes fulfil the protocol ``Order``."""
    for seed in seeds:
        _History(make_order(_CLASSES, make_discipline), _CLASSES, seed).run()


class _SingleClassOrder:
    """A discipline as the order of a single class."""

    def __init__(self, discipline: Discipline) -> None:
        self._discipline = discipline
        self.remove = discipline.remove

    def push(self, ticket: Ticket, class_name: str, tokens: float, now_s: float) -> None:
        self._discipline.push(ticket, tokens, now_s)

    def head(self, now_s: float, excluded: Collection[str] = ()) -> Ticket | None:
        return None if excluded else self._discipline.head(now_s)

    def charge(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        self._discipline.charge(ticket, tokens)

    def correct(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        self._discipline.correct(ticket, tokens)

    def worst_below(self, priority: int) -> Ticket | None:
        return self._discipline.newest() if priority > _ONLY["only"].priority else None

    def waiting(self, class_name: str) -> int:
        return len(self._discipline)

    def oldest(self) -> Iterator[Ticket]:
        oldest = self._discipline.oldest()
        return iter(() if oldest is None else (oldest,))

    def __len__(self) -> int:
        return len(self._discipline)

    def __iter__(self) -> Iterator[Ticket]:
        return iter(self._discipline)


class _History:
    """The history of one order. ``expected`` holds the waiting tickets of each class, in the order they were added."""

    def __init__(self, order: Order, classes: Mapping[str, PriorityClass], seed: int) -> None:
        self.order = order
        self.priorities = {name: classes[name].priority for name in classes}
        self.ranked = sorted(classes, key=lambda name: -classes[name].priority)
        self.expected: dict[str, list[Ticket]] = {name: [] for name in self.ranked}
        self.gone: list[tuple[Ticket, str]] = []
        self.seed, self.step, self.now_s, self.made = seed, 0, 0.0, 0
        self.random = Random(seed)  # noqa: S311 - to be repeatable, not secret

    def run(self) -> None:
        """Run all steps, each followed by all checks, and then the drain."""
        self.check()
        for self.step in range(1, _STEPS + 1):
            self.now_s += self.random.choice((0.0, 0.001, 1.0, 40.0))
            moves = (self.arrive, self.arrive, self.dispatch, self.cancel, self.come_back, self.end)
            self.random.choice(moves)()
            self.check()
        while self.waiting():
            self.step += 1
            self.go(())
            self.check()

    def arrive(self) -> None:
        """Add a new ticket, sometimes in another class than the one it names."""
        self.made += 1
        asked = Timeouts(total_s=self.random.uniform(0.1, 100.0)) if self.random.random() < 0.5 else NO_TIMEOUTS
        named = self.random.choice((*self.ranked, "since removed"))
        name = named if named in self.expected else self.ranked[-1]
        tenant, prefix = self.random.choice(("", "a", "b", "c")), self.random.choice(_PREFIXES)
        self.put(Ticket(self.made, named, self.now_s, tenant, asked=asked, prefix=prefix), name)

    def come_back(self) -> None:
        """Add a ticket again that has left."""
        if self.gone:
            self.put(*self.gone.pop(self.random.randrange(len(self.gone))))

    def cancel(self) -> None:
        """Remove a waiting ticket from any position, and try to remove an absent one."""
        if self.waiting():
            self.take(self.random.choice(self.waiting()))
        absent = self.gone[-1][0].id if self.gone else _UNKNOWN_ID
        self.expect(self.order.remove(absent) is None, f"removing the absent ticket {absent} returned a ticket")

    def dispatch(self) -> None:
        """Dispatch the head of the classes that are not excluded."""
        self.go(self.random.sample(self.ranked, self.random.randrange(len(self.ranked) + 1)))

    def end(self) -> None:
        """Correct the charge of a ticket that has left."""
        if self.gone:
            self.order.correct(*self.random.choice(self.gone), self.random.choice((-4000.0, -1.0, 0.0, 9.0, 5000.0)))

    def put(self, ticket: Ticket, name: str) -> None:
        """Add a ticket, to the order and to the reference."""
        self.order.push(ticket, name, self.tokens(), self.now_s)
        self.expected[name].append(ticket)

    def go(self, excluded: Collection[str]) -> None:
        """Dispatch the head as the desk does: head, charge, remove."""
        head, again = self.order.head(self.now_s, excluded), self.order.head(self.now_s, excluded)
        self.expect(head is again, f"the head was {_id(head)}, and {_id(again)} on a second call")
        allowed = [ticket for name in self.ranked if name not in excluded for ticket in self.expected[name]]
        if head is None:
            self.expect(not allowed, f"there is no head, though {_ids(allowed)} wait and are not excluded")
            return
        self.expect(head in allowed, f"the head is {head.id}, but only {_ids(allowed)} wait and are not excluded")
        self.order.charge(head, self.class_of(head), self.tokens())
        self.take(head)

    def take(self, ticket: Ticket) -> None:
        """Remove a waiting ticket, from the order and from the reference."""
        removed, again = self.order.remove(ticket.id), self.order.remove(ticket.id)
        self.expect(removed is ticket, f"removing ticket {ticket.id} returned {_id(removed)}")
        self.expect(again is None, f"ticket {ticket.id} could be removed twice")
        name = self.class_of(ticket)
        self.expected[name].remove(ticket)
        self.gone.append((ticket, name))

    def check(self) -> None:
        """Compare all views and counts with the reference."""
        order, waiting = self.order, self.waiting()
        self.same("iteration", order, waiting)
        self.expect(len(order) == len(waiting), f"the length is {len(order)}, but {len(waiting)} wait")
        for name, tickets in self.expected.items():
            self.expect(order.waiting(name) == len(tickets), f"{order.waiting(name)} in {name}, not {len(tickets)}")
        oldest = sorted(order.oldest(), key=lambda ticket: ticket.id)
        self.same(
            "the oldest",
            oldest,
            sorted((tickets[0] for tickets in self.expected.values() if tickets), key=lambda tickets: tickets.id),
        )
        for priority in {limit + more for limit in self.priorities.values() for more in (0, 1)}:
            worst, expected = order.worst_below(priority), self.worst_below(priority)
            self.expect(worst is expected, f"the worst below {priority} is {_id(worst)}, not {_id(expected)}")

    def worst_below(self, priority: int) -> Ticket | None:
        """The expected result of ``Order.worst_below``."""
        least = next((name for name in reversed(self.ranked) if self.expected[name]), None)
        return self.expected[least][-1] if least is not None and self.priorities[least] < priority else None

    def waiting(self) -> list[Ticket]:
        """All waiting tickets, class by class."""
        return [ticket for name in self.ranked for ticket in self.expected[name]]

    def class_of(self, ticket: Ticket) -> str:
        """The class in which a ticket waits."""
        return next(name for name, tickets in self.expected.items() if ticket in tickets)

    def tokens(self) -> float:
        """A random number of tokens."""
        return self.random.choice((1.0, 80.0, 4096.0))

    def same(self, what: str, found: Iterable[Ticket], expected: Iterable[Ticket]) -> None:
        """Raise when two sequences of tickets differ."""
        found_ids, expected_ids = _ids(found), _ids(expected)
        self.expect(found_ids == expected_ids, f"{what}: {found_ids}, not {expected_ids}")

    def expect(self, kept: bool, issue: str) -> None:
        """Raise AssertionError unless ``kept``."""
        if not kept:
            raise AssertionError(f"seed {self.seed}, step {self.step}: {issue}")


def _id(ticket: Ticket | None) -> str:
    return "no ticket" if ticket is None else f"ticket {ticket.id}"


def _ids(tickets: Iterable[Ticket]) -> list[int]:
    return [ticket.id for ticket in tickets]
