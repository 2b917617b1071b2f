"""A custom order that fails is disabled, and no waiting ticket is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from small_presets import small_preset
from watched_desk import WatchedDesk, dispatched

from headway_policies import PriorityClass, StrictOrder, Ticket
from headway_policies.queueing.factory import Order, OrderSettings, make_order
from headway_policies.queueing.safe_order import SafeOrder

CLASSES = {name: PriorityClass(priority=rank, max_waiting=9) for rank, name in enumerate(("batch", "normal", "urgent"))}


def raises(*_: object) -> Any:
    raise LookupError("not today")


def guarded(theirs: Order, number: int = 6) -> SafeOrder:
    """So many tickets, two in each class, in a SafeOrder with the strict order as default."""
    order = SafeOrder(theirs, CLASSES, lambda: StrictOrder(CLASSES))
    for one in range(number):
        order.push(Ticket(one, list(CLASSES)[one % 3], float(one)), list(CLASSES)[one % 3], 10.0, float(one))
    return order


def drained(order: Order) -> list[int]:
    """All tickets, in the order of dispatch."""
    gone = []
    while (ticket := order.head(99.0)) is not None:
        order.charge(ticket, ticket.class_name, 10.0)
        order.remove(ticket.id)
        gone.append(ticket.id)
    return gone


CALLS: dict[str, Callable[[Order], object]] = {
    "push": lambda order: order.push(Ticket(6, "urgent", 6.0), "urgent", 10.0, 6.0),
    "head": lambda order: order.head(7.0),
    "remove": lambda order: order.remove(5),
    "charge": lambda order: order.charge(Ticket(2, "urgent", 2.0), "urgent", 10.0),
    "correct": lambda order: order.correct(Ticket(9, "urgent", 0.0), "urgent", 10.0),
    "worst_below": lambda order: order.worst_below(2),
    "oldest": lambda order: list(order.oldest()),
}


@pytest.mark.parametrize("what", CALLS)
def test_whatever_raises_is_answered_all_the_same(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is that of a working order, no ticket is lost or duplicated, and the error is recorded."""
    theirs, right = StrictOrder(CLASSES), guarded(StrictOrder(CLASSES))
    order = guarded(theirs)
    monkeypatch.setattr(theirs, what, raises)
    assert CALLS[what](order) == CALLS[what](right)
    assert order.failed == f"{what} raised LookupError"
    assert right.failed is None
    assert list(order) == list(right)
    assert len(order) == len(right)
    assert [order.waiting(name) for name in CLASSES] == [right.waiting(name) for name in CLASSES]
    assert drained(order) == drained(right)


@pytest.mark.parametrize(
    ("what", "answer"),
    [
        ("head", None),
        ("head", Ticket(2, "urgent", 2.0)),  # its twin
        ("head", Ticket(77, "urgent", 2.0)),
        ("worst_below", None),
        ("worst_below", Ticket(77, "batch", 2.0)),
        ("oldest", []),
        ("oldest", [Ticket(77, "batch", 2.0)]),
    ],
)
def test_whatever_cannot_be_right_is_not_believed(what: str, answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No ticket while one waits, or a ticket that does not wait."""
    theirs, right = StrictOrder(CLASSES), guarded(StrictOrder(CLASSES))
    order = guarded(theirs)
    monkeypatch.setattr(theirs, what, lambda *_: answer)
    assert CALLS[what](order) == CALLS[what](right)
    assert order.failed == f"{what} gave a wrong answer"
    assert drained(order) == drained(right)


def test_no_head_is_right_where_all_are_excluded_or_gone() -> None:
    """An empty order, and one whose classes may not go, have no head: that is no fault."""
    order = guarded(StrictOrder(CLASSES))
    assert order.head(7.0, excluded=("urgent", "normal", "batch")) is None
    assert order.worst_below(0) is None
    assert drained(order) == [2, 5, 1, 4, 0, 3]
    assert (order.head(8.0), order.remove(2), list(order.oldest()), order.failed) == (None, None, [], None)


def test_a_head_of_an_excluded_class_disables_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that ignores reserves is disabled at once."""
    theirs = StrictOrder(CLASSES)
    order = guarded(theirs)
    urgent = theirs.head(7.0)
    monkeypatch.setattr(theirs, "head", lambda *_: urgent)
    head = order.head(7.0, excluded=("urgent",))
    assert head is not None
    assert (head.class_name, order.failed) == ("normal", "head gave a wrong answer")


@pytest.mark.parametrize("key", ["between", "inside"])
def test_only_custom_policies_are_guarded(key: str) -> None:
    """Orders and lines of the package cost no guard."""
    paths = {
        "between": "headway_policies.queueing.factory:StrictOrder",
        "inside": "headway_policies.queueing.disciplines:Fifo",
    }
    assert isinstance(make_order(OrderSettings(**{key: paths[key]}), CLASSES), SafeOrder)
    assert not isinstance(make_order(OrderSettings(), CLASSES), SafeOrder)


@pytest.mark.parametrize(("key", "path"), [("between", "FaultyOrder"), ("inside", "FaultyLine"), ("inside", "Quitter")])
def test_a_desk_with_a_failing_order_serves_all_requests(key: str, path: str) -> None:
    """All are dispatched, once each; the desk reports the error until a preset with an order that works is in force."""
    it = WatchedDesk(small_preset(seats=2, **{key: f"faulty_policy:{path}"}))  # type: ignore[arg-type]
    gone = [one for _ in range(12) for one in dispatched(it.comes())]
    assert it.reading.order_failed is None or "raised" in it.reading.order_failed or "wrong" in it.reading.order_failed
    for number in range(12):
        gone += dispatched(it.leaves(gone[number]))
    assert sorted(gone) == list(range(1, 13))
    assert it.reading.order_failed is not None
    it.does("switch", small_preset(seats=2, name="ours"))
    assert it.reading.order_failed is None
    assert it.counts() == (12, 0, 0, {"completed": 12})
