"""Tickets that wait behind all others of their class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pytest
from small_presets import terms

from headway_policies.conformance.orders import _CLASSES, _History
from headway_policies.queueing import ClassQueues, make_discipline
from headway_policies.queueing.ageing import AgeingOrder
from headway_policies.queueing.class_queues import MakeDiscipline
from headway_policies.queueing.strict import StrictOrder
from headway_policies.queueing.weighted import WeightedOrder
from headway_policies.request import PriorityClass, Ticket

Make = Callable[[Mapping[str, PriorityClass], MakeDiscipline], ClassQueues]
ORDERS: dict[str, Make] = {"strict": StrictOrder, "ageing": AgeingOrder, "weighted": WeightedOrder}


class Relegations(_History):
    """A history of the conformance suite in which waiting tickets are relegated as well."""

    order: ClassQueues

    def __init__(self, order: ClassQueues, seed: int) -> None:
        self.late: dict[int, None] = {}  # in the order in which they were relegated
        super().__init__(order, _CLASSES, seed)

    def end(self) -> None:
        """Instead of one correction: a correction, and a relegation."""
        super().end()
        in_time = [one for one in self.waiting() if one.id not in self.late]
        if in_time:
            ticket = self.random.choice(in_time)
            assert self.order.relegate(ticket, self.now_s) is self.order.relegates
            if self.order.relegates:
                self.late[ticket.id] = None

    def take(self, ticket: Ticket) -> None:
        super().take(ticket)
        self.late.pop(ticket.id, None)

    def check(self) -> None:
        """All that waits is there once and can be reached; the late ones of a class come last, the last one first."""
        order, waiting = self.order, self.waiting()
        assert sorted(one.id for one in order) == sorted(one.id for one in waiting)
        assert len(order) == len(waiting)
        for name, tickets in self.expected.items():
            late = [one for one in tickets if one.id in self.late]
            assert order.waiting(name) == len(tickets)
            assert order.late_seats(name) == sum(one.seats for one in late)
            others = [other for other in self.ranked if other != name]
            head = StrictOrder.head(order, self.now_s, others)  # type: ignore[arg-type]  # of one class, without a new round
            assert (head is None) == (not tickets)
            if head is not None and head.id in self.late:
                assert len(late) == len(tickets), "a late one goes before one of its class that is in time"
                own = {one.id for one in late}
                assert head.id == [one for one in self.late if one in own][-1]
        assert {one.class_name for one in order.oldest()} <= {one.class_name for one in waiting}


@pytest.mark.parametrize("inside", ["fifo", "edf", "hrrn", "fair", "prefix"])
@pytest.mark.parametrize("make", ORDERS.values(), ids=ORDERS)
def test_every_order_keeps_its_protocol_while_tickets_are_relegated(make: Make, inside: str) -> None:
    """None is lost or there twice, each can be removed, and the late ones of a class go last."""
    for seed in range(8):
        history = Relegations(make(_CLASSES, partial(make_discipline, inside)), seed)
        history.run()
        assert not history.late


@pytest.mark.parametrize(
    ("inside", "may"), [("fifo", True), ("edf", True), ("hrrn", True), ("fair", True), ("prefix", False)]
)
def test_all_disciplines_but_that_of_prefixes_relegate(inside: str, may: bool) -> None:
    """The order by prefixes counts who was passed."""
    classes = {"only": terms(1)}
    order = StrictOrder(classes, partial(make_discipline, inside))
    tickets = [Ticket(number, "only", float(number), seats=number) for number in (1, 2, 3)]
    for one in tickets:
        order.push(one, "only", 10.0, 0.0)
    assert order.relegate(tickets[0], 5.0) is may
    assert (order.head(5.0) is tickets[0]) is not may
    assert order.late_seats("only", "") == (1 if may else 0)


def test_the_oldest_of_a_class_may_be_late() -> None:
    """A class is as old as what waits longest in it, whenever that was relegated; what is newest is not late."""
    order = StrictOrder({"only": terms(1)})
    tickets = [Ticket(number, "only", float(number)) for number in (1, 2, 3)]
    for one in tickets:
        order.push(one, "only", 10.0, 0.0)
    order.relegate(tickets[2], 5.0)
    order.relegate(tickets[0], 6.0)
    assert [one.id for one in order.oldest()] == [1]
    worst = order.worst_below(2)
    assert worst is tickets[1]
    assert [order.head(7.0), order.remove(2)] == [tickets[1], tickets[1]]
    assert order.head(7.0) is tickets[0]
