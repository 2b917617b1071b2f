"""Every discipline and every order keeps its protocol, and the suites detect one that does not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial

import pytest
from tiers import LONG

from headway_policies.conformance.orders import check_discipline, check_order
from headway_policies.queueing.ageing import AgeingOrder
from headway_policies.queueing.class_queues import MakeDiscipline, fifo
from headway_policies.queueing.disciplines import Discipline, Edf, Fifo, Hrrn
from headway_policies.queueing.factory import Order, StrictOrder, make_discipline
from headway_policies.queueing.fair_share import FairShare
from headway_policies.queueing.prefix_share import PrefixShare
from headway_policies.queueing.weighted import WeightedOrder
from headway_policies.request.classes import PriorityClass
from headway_policies.request.ticket import Ticket, Timeouts

#: The histories that what conforms is tried with; what is broken is tried with all that the suites have.
SEEDS = range(20 if LONG else 6)
SEEDS_OF_A_PAIR = range(20 if LONG else 3)
#: Every line and order there is. A new one is held to its protocol by adding its line.
LINES: dict[str, Callable[[], Discipline]] = {
    "fifo": Fifo,
    "edf": Edf,
    "edf in a class with terms": partial(Edf, Timeouts(queue_s=5.0)),
    "hrrn": Hrrn,
    "fair": FairShare,
    "prefix": PrefixShare,
}
ORDERS: dict[str, Callable[[Mapping[str, PriorityClass], MakeDiscipline], Order]] = {
    "strict": StrictOrder,
    "ageing": AgeingOrder,
    "weighted": WeightedOrder,
}


@pytest.mark.parametrize("make", LINES.values(), ids=LINES)
def test_every_discipline_conforms(make: Callable[[], Discipline]) -> None:
    """A discipline loses and duplicates no ticket, and all its views agree."""
    check_discipline(make, SEEDS)


@pytest.mark.parametrize("inside", ["fifo", "edf", "hrrn", "fair", "prefix"])
@pytest.mark.parametrize("make", ORDERS.values(), ids=ORDERS)
def test_every_order_conforms_with_every_discipline(
    make: Callable[[Mapping[str, PriorityClass], MakeDiscipline], Order], inside: str
) -> None:
    """An order loses or duplicates no ticket, skips excluded classes; all its views agree, with every discipline."""
    check_order(make, partial(make_discipline, inside), SEEDS_OF_A_PAIR)


class Loses(Fifo):
    def push(self, ticket: Ticket, tokens: float, now_s: float) -> None:
        if ticket.id % 7:
            super().push(ticket, tokens, now_s)


class Doubles(Fifo):
    def remove(self, ticket_id: int) -> Ticket | None:
        return self._tickets.get(ticket_id)


class Wavers(Fifo):
    asked = 0

    def head(self, now_s: float) -> Ticket | None:
        self.asked += 1
        return self.oldest() if self.asked % 2 else self.newest()


class Stalls(Fifo):
    def head(self, now_s: float) -> Ticket | None:
        return None


class RemovesStrangers(Fifo):
    def remove(self, ticket_id: int) -> Ticket | None:
        return super().remove(ticket_id) or Ticket(ticket_id, "", 0.0)


class MistakesTheNewest(Fifo):
    def newest(self) -> Ticket | None:
        return self.oldest()


class MistakesTheOldest(Fifo):
    def oldest(self) -> Ticket | None:
        return self.newest()


class Miscounts(Fifo):
    def __len__(self) -> int:
        return max(0, super().__len__() - 1)


class Shuffles(Fifo):
    def __iter__(self) -> Iterator[Ticket]:
        return reversed(self._tickets.values())


BROKEN_LINES = [Loses, Doubles, Wavers, Stalls, RemovesStrangers, MistakesTheNewest, MistakesTheOldest]
BROKEN_LINES += [Miscounts, Shuffles]


@pytest.mark.parametrize("broken", BROKEN_LINES)
def test_a_broken_discipline_is_found(broken: Callable[[], Discipline]) -> None:
    """Each way to break the protocol of a discipline is reported in a sentence with seed and step."""
    with pytest.raises(AssertionError, match=r"^seed \d+, step \d+: \w+"):
        check_discipline(broken)


class IgnoresBars(StrictOrder):
    def head(self, now_s: float, excluded: Collection[str] = ()) -> Ticket | None:
        return super().head(now_s)


class LowestFirst(StrictOrder):
    def __iter__(self) -> Iterator[Ticket]:
        return iter([ticket for one in reversed(self._queues) for ticket in one.discipline])


class EvictsItsEqual(StrictOrder):
    def worst_below(self, priority: int) -> Ticket | None:
        return super().worst_below(priority + 1)


class EvictsTheOldest(StrictOrder):
    def worst_below(self, priority: int) -> Ticket | None:
        worst = super().worst_below(priority)
        return worst and next(one for one in self.oldest() if one.id <= worst.id)


class ForgetsAClass(StrictOrder):
    def oldest(self) -> Iterator[Ticket]:
        return iter(list(super().oldest())[:2])


class TrustsTheTicketsName(StrictOrder):
    def push(self, ticket: Ticket, class_name: str, tokens: float, now_s: float) -> None:
        known = ticket.class_name in self._by_name
        super().push(ticket, ticket.class_name if known else "urgent", tokens, now_s)


class MiscountsAll(StrictOrder):
    def __len__(self) -> int:
        return super().__len__() + 1


class CountsOneClassForAll(StrictOrder):
    def waiting(self, class_name: str) -> int:
        return super().waiting("middle")


BROKEN_ORDERS = [IgnoresBars, LowestFirst, EvictsItsEqual, EvictsTheOldest, ForgetsAClass, TrustsTheTicketsName]
BROKEN_ORDERS += [MiscountsAll, CountsOneClassForAll]


@pytest.mark.parametrize("broken", BROKEN_ORDERS)
def test_a_broken_order_is_found(broken: Callable[[Mapping[str, PriorityClass], MakeDiscipline], Order]) -> None:
    """Each way to break the protocol of an order is reported in a sentence with seed and step."""
    with pytest.raises(AssertionError, match=r"^seed \d+, step \d+: \w+"):
        check_order(broken)


def test_an_order_with_a_broken_discipline_is_found() -> None:
    """The suite of the orders sees through to the lines inside."""
    with pytest.raises(AssertionError, match="seed"):
        check_order(StrictOrder, lambda terms: Loses())
    check_order(StrictOrder, fifo, seeds=[0])
