"""Which adapter gets a place, and which one is closed for it; a request runs for a second."""

from __future__ import annotations

from itertools import count

import pytest

from headway_policies import Ticket
from headway_policies.queueing.adapters import PATIENCE, REMEMBERED, Adapters

DUE_S = PATIENCE + 0.5


class Places:
    """Adapters of an engine, by the letters of their names: a capital one is urgent."""

    def __init__(self, most: int, running: str) -> None:
        self.adapters, self._ids = Adapters(most), count()
        for name in running:
            self.adapters.has(name, 1)

    def aside(self, name: str, at_s: float, class_name: str = "") -> Ticket:
        """Set a ticket aside."""
        ticket = Ticket(next(self._ids), class_name or name, at_s, adapter=name.lower())
        self.adapters.set_aside(ticket, ticket.class_name, int(ticket.class_name.isupper()), at_s)
        return ticket

    def gets(self, at_s: float, barred: tuple[str, ...] = ()) -> Ticket | None:
        """The ticket that goes now, with those of its adapter."""
        ticket = self.adapters.claim(barred, 1.0, at_s) if self.adapters.lines else None
        if ticket is not None:
            for aside in list(self.adapters):
                if aside.ticket.adapter == ticket.adapter:
                    self.adapters.forget(aside.ticket, at_s)
            self.adapters.has(ticket.adapter or "", 1)
        return ticket

    def closed(self, names: str) -> str:
        """Those of which no other ticket may go, of the running ones."""
        return "".join(name for name in names if not self.adapters.may_go(Ticket(0, name, 0.0, adapter=name)))


def test_the_most_urgent_ticket_of_an_adapter_goes_first() -> None:
    """Though it was set aside after others; one whose class may not go now does not."""
    it = Places(2, "a")
    it.aside("b", 0.0)
    urgent = it.aside("b", 1.0, "B")
    assert it.adapters.claim((), 1.0, 1.0) is urgent
    less = it.adapters.claim(("B",), 1.0, 1.0)
    assert less is not None
    assert less.class_name == "b"
    assert it.adapters.claim(("b", "B"), 1.0, 1.0) is None


def test_one_that_is_due_goes_before_a_more_urgent_one() -> None:
    """Before it is due the more urgent one goes."""
    for at_s, first in ((DUE_S - 1.0, "C"), (DUE_S, "b")):
        it = Places(2, "a")
        it.aside("b", 0.0)
        it.aside("C", DUE_S - 1.5)
        gone = it.gets(at_s)
        assert gone is not None
        assert gone.class_name == first


def test_the_adapter_with_the_fewest_requests_is_closed() -> None:
    """As soon as another one is due, and until that has its place."""
    it = Places(2, "aab")
    due = it.aside("c", 0.0)
    assert (it.gets(DUE_S - 1.0), it.closed("ab")) == (None, "")
    assert (it.gets(DUE_S), it.closed("ab")) == (None, "b")
    it.adapters.has("a", -1)
    assert (it.gets(DUE_S), it.closed("ab")) == (None, "b")
    it.adapters.has("b", -1)
    assert (it.gets(DUE_S), it.closed("ac")) == (due, "")


def test_an_adapter_keeps_its_new_place_for_as_long_as_a_request_runs() -> None:
    """So that its others go as well, though another one is due."""
    it = Places(1, "a")
    it.aside("b", 0.0)
    it.aside("c", 0.1)
    assert (it.gets(DUE_S), it.closed("a")) == (None, "a")
    it.adapters.has("a", -1)
    assert it.gets(DUE_S) is not None
    assert (it.gets(DUE_S + 0.9), it.closed("b")) == (None, "")
    assert (it.gets(DUE_S + 1.0), it.closed("b")) == (None, "b")


def test_a_closed_adapter_goes_on_where_none_waits_for_its_place_any_more() -> None:
    """Also where tickets of its own were set aside for so long that it would be due."""
    it = Places(1, "a")
    due = it.aside("b", 0.0)
    assert it.gets(DUE_S) is None
    own = it.aside("a", DUE_S)
    assert it.adapters.forget(due, DUE_S)
    assert it.gets(3 * DUE_S) is own
    assert it.closed("a") == ""


def test_the_patience_with_an_adapter_outlasts_its_tickets() -> None:
    """Those that gave up were of the same adapter: it is due as if they still waited, until one has gone."""
    it = Places(1, "a")
    assert it.adapters.forget(it.aside("b", 0.0), 1.0)
    it.aside("b", DUE_S)
    assert (it.gets(DUE_S), it.closed("a")) == (None, "a")
    it.adapters.has("a", -1)
    assert it.gets(DUE_S) is not None
    it.adapters.has("b", -1)
    it.adapters.has("a", 1)
    it.aside("b", 2 * DUE_S)
    assert (it.gets(2 * DUE_S), it.closed("a")) == (None, "")


@pytest.mark.parametrize(("back_s", "closed"), [(PATIENCE + 0.9, "a"), (PATIENCE + 1.0, "")])
def test_the_patience_outlasts_them_for_as_long_as_it_is(back_s: float, closed: str) -> None:
    """A client that asks again within that time is not passed over for ever; a later one waits from then on."""
    it = Places(1, "a")
    given_up = it.aside("b", 0.0)
    assert it.gets(0.0) is None  # from now on it is known how long a request runs
    assert it.adapters.forget(given_up, 1.0)
    it.aside("b", back_s)
    assert (it.gets(back_s), it.closed("a")) == (None, closed)


def test_adapters_without_a_ticket_take_no_memory() -> None:
    """However many names come at once, and though each gives up; once their patience is over none is remembered. Those
    that had a place leave nothing behind at all.
    """
    it = Places(1, "a")
    for number in range(10_000):
        assert it.adapters.forget(it.aside(f"b{number}", 0.0), 0.0)
    assert kept(it.adapters) <= 2 * REMEMBERED + 1
    it.aside("c", 1.0)
    it.adapters.claim((), 1.0, 1.0)
    assert it.adapters.forget(it.aside("d", 1.0 + PATIENCE), 1.0 + PATIENCE)
    assert kept(it.adapters) <= 5  # a runs, c is aside, d is remembered
    it.adapters.has("a", -1)
    for number in range(1000):
        it.aside(f"b{number}", 2.0 + PATIENCE + number)
        assert it.gets(2.0 + PATIENCE + number) is not None
        for adapter in list(it.adapters._running):
            it.adapters.has(adapter, -1)
    assert kept(it.adapters) <= 2


def kept(adapters: Adapters) -> int:
    """How many names are remembered, each as often as it is."""
    return sum(len(held) for held in vars(adapters).values() if isinstance(held, dict))


def test_while_no_request_has_ended_none_is_due() -> None:
    """How long one runs is not known."""
    it = Places(1, "a")
    it.aside("b", 0.0)
    assert it.adapters.claim((), float("inf"), 1e9) is None
    assert it.closed("a") == ""
