"""What every order promises, and what the strict one promises besides."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies import Order, StrictOrder, Ticket

PRIORITIES = {"batch": 1, "realtime": 3, "normal": 2}

#: Every order there is. A new one is held to all promises of this file by adding its line.
ORDERS: dict[str, Callable[[Mapping[str, int]], Order]] = {"strict": StrictOrder}

every_order = pytest.mark.parametrize("make", ORDERS.values(), ids=ORDERS)
arrivals = st.lists(st.sampled_from(sorted(PRIORITIES)), max_size=30)


def ticket(number: int, name: str = "normal") -> Ticket:
    return Ticket(number, name, float(number))


def lined_up(make: Callable[[Mapping[str, int]], Order], names: list[str]) -> tuple[Order, list[Ticket]]:
    order, tickets = make(PRIORITIES), [ticket(number, name) for number, name in enumerate(names)]
    for one in tickets:
        order.push(one, one.class_name)
    return order, tickets


@every_order
def test_an_empty_order_has_no_head(make: Callable[[Mapping[str, int]], Order]) -> None:
    """Nobody waits: no head, no oldest, nothing to remove."""
    order = make(PRIORITIES)
    assert order.head() is None
    assert (len(order), list(order), list(order.oldest()), order.remove(1)) == (0, [], [], None)


@every_order
@given(names=arrivals)
def test_everybody_comes_out_once_and_in_the_order_shown(
    make: Callable[[Mapping[str, int]], Order], names: list[str]
) -> None:
    """Taking the head again and again gives what iteration announced, each ticket once."""
    order, tickets = lined_up(make, names)
    announced = list(order)
    served = []
    while (head := order.head()) is not None:
        served.append(head)
        assert order.remove(head.id) is head
    assert served == announced
    assert sorted(one.id for one in served) == [one.id for one in tickets]
    assert len(order) == 0


@every_order
@given(names=arrivals, data=st.data())
def test_taking_somebody_out_disturbs_nobody_else(
    make: Callable[[Mapping[str, int]], Order], names: list[str], data: st.DataObject
) -> None:
    """Whoever is removed, from wherever, the others keep their order."""
    order, tickets = lined_up(make, names)
    gone = set(data.draw(st.lists(st.sampled_from(tickets), unique=True))) if tickets else set()
    before = [one for one in order if one not in gone]
    for one in gone:
        assert order.remove(one.id) is one
        assert order.remove(one.id) is None
    assert list(order) == before


@every_order
@given(names=arrivals)
def test_counts_and_oldest_agree_with_the_line(make: Callable[[Mapping[str, int]], Order], names: list[str]) -> None:
    """The number in each class and its longest-waiting ticket are those of the line itself."""
    order, tickets = lined_up(make, names)
    assert len(order) == len(tickets)
    for name in PRIORITIES:
        assert order.waiting(name) == names.count(name)
    first = {one.class_name: one for one in reversed(tickets)}
    assert {one.class_name: one for one in order.oldest()} == first


@every_order
def test_within_a_class_the_first_to_come_goes_first(make: Callable[[Mapping[str, int]], Order]) -> None:
    """First come, first served inside a class."""
    order, tickets = lined_up(make, ["normal"] * 5)
    assert list(order) == tickets


@given(names=arrivals)
def test_strict_order_is_by_urgency_and_then_by_arrival(names: list[str]) -> None:
    """The most urgent goes first: never the lowest priority, whatever order the classes were written in."""
    order, tickets = lined_up(StrictOrder, names)
    assert list(order) == sorted(tickets, key=lambda one: (-PRIORITIES[one.class_name], one.id))


def test_a_ticket_may_wait_in_another_class_than_its_own() -> None:
    """After a switch a ticket waits where the desk puts it, and keeps its name."""
    order = StrictOrder(PRIORITIES)
    order.push(ticket(1, "gone"), "batch")
    order.push(ticket(2, "normal"), "normal")
    assert [one.id for one in order] == [2, 1]
    assert order.waiting("batch") == 1
