"""The disciplines inside a class: the order they dispatch in, and its bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.queueing.disciplines import Discipline, Edf, Hrrn
from headway_policies.queueing.fair_share import CREDIT_TICKETS, RECENT, FairShare
from headway_policies.request.ticket import NO_TIMEOUTS, Ticket, Timeouts

stages = st.none() | st.integers(1, 50).map(float)
asked = st.builds(Timeouts, queue_s=stages, first_token_s=stages, stall_s=stages, total_s=stages)


def drained(line: Discipline, now_s: float = 0.0) -> list[Ticket]:
    """All tickets, in the order of dispatch."""
    served = []
    while (head := line.head(now_s)) is not None:
        line.charge(head, 1.0)
        assert line.remove(head.id) is head
        served.append(head)
    return served


def due_s(ticket: Ticket, terms: Timeouts) -> float:
    """A ticket's deadline, worked out another way."""
    allowed = [ticket.asked.queue_s, ticket.asked.first_token_s, ticket.asked.total_s]
    allowed += [terms.queue_s, terms.first_token_s, terms.total_s]
    return ticket.arrived_s + min([1e9, *(one for one in allowed if one is not None)])


@given(wanted=st.lists(asked | st.just(NO_TIMEOUTS), max_size=40), terms=asked)
def test_edf_serves_by_deadline_and_then_by_arrival(wanted: list[Timeouts], terms: Timeouts) -> None:
    """The order is that of sorting by the earliest deadline; a stall time-out is none; no deadline comes last."""
    line = Edf(terms)
    tickets = [Ticket(number, "normal", float(number), asked=one) for number, one in enumerate(wanted)]
    for ticket in tickets:
        line.push(ticket, 1.0, ticket.arrived_s)
    assert drained(line) == sorted(tickets, key=lambda ticket: (due_s(ticket, terms), ticket.id))


def test_edf_keeps_no_heap_of_removed_tickets() -> None:
    """Cancellations behind one patient ticket, however many, leave nothing behind."""
    line = Edf()
    line.push(Ticket(0, "normal", 0.0), 1.0, 0.0)
    for number in range(1, 2000):
        line.push(Ticket(number, "normal", float(number)), 1.0, 0.0)
        line.remove(number)
    assert len(line._heap) < 100
    assert [one.id for one in drained(line)] == [0]


@given(
    sizes=st.lists(st.tuples(st.floats(0, 5), st.floats(0, 1e5)), min_size=1, max_size=40),
    step_s=st.floats(0.01, 10),
)
def test_hrrn_is_within_a_factor_of_two_of_the_highest_ratio(sizes: list[tuple[float, float]], step_s: float) -> None:
    """Against a search through all tickets: the head has at least half the wait/size of the best."""
    line, size_of, now_s = Hrrn(), {}, 0.0
    for number, (gap_s, tokens) in enumerate(sizes):
        now_s += gap_s
        size_of[number] = max(tokens, 1.0)
        line.push(Ticket(number, "normal", now_s), tokens, now_s)
    while (head := line.head(now_s)) is not None:
        best = max((now_s - one.arrived_s) / size_of[one.id] for one in line)
        assert (now_s - head.arrived_s) / size_of[head.id] >= best / 2
        line.remove(head.id)
        now_s += step_s
    assert len(line) == 0


def test_hrrn_serves_the_short_first_and_lets_the_long_catch_up() -> None:
    """Of two that come together the smaller goes; a large one that has waited long goes before a new small one."""
    line = Hrrn()
    line.push(Ticket(1, "normal", 0.0), 1000.0, 0.0)
    line.push(Ticket(2, "normal", 0.0), 10.0, 0.0)
    assert line.head(0.0) == Ticket(2, "normal", 0.0)
    assert [one.id for one in drained(line, 1.0)] == [2, 1]
    line.push(Ticket(1, "normal", 0.0), 1000.0, 0.0)
    line.push(Ticket(2, "normal", 100.0), 10.0, 100.0)
    assert [one.id for one in drained(line, 100.5)] == [1, 2]


def test_hrrn_is_first_come_first_served_in_an_octave() -> None:
    """Sizes from 64 to 127 tokens count alike."""
    line = Hrrn()
    for number, tokens in enumerate((127.0, 64.0, 100.0)):
        line.push(Ticket(number, "normal", float(number)), tokens, 0.0)
    assert [one.id for one in drained(line, 50.0)] == [0, 1, 2]


def test_hrrn_takes_a_ticket_that_comes_back_by_its_arrival() -> None:
    """Before those of its octave that came later, whatever comes back in whichever order."""
    line = Hrrn()
    tickets = [Ticket(number, "normal", float(number)) for number in range(4)]
    for one in tickets:
        line.push(one, 100.0, one.arrived_s)
    for one in (tickets[0], tickets[1]):
        line.remove(one.id)
    for one in (tickets[0], tickets[1]):
        line.restore(one, 100.0, 9.0)
    assert [one.id for one in drained(line, 50.0)] == [0, 1, 2, 3]


def taken(line: FairShare, number: int, tokens: float = 10.0) -> list[str]:
    """Dispatch so many tickets; their tenants in turn."""
    found = []
    for _ in range(number):
        head = line.head(0.0)
        assert head is not None
        line.charge(head, tokens)
        line.remove(head.id)
        found.append(head.tenant)
    return found


def line_up(line: FairShare, tenant: str, numbers: range) -> None:
    """Tickets of one tenant."""
    for number in numbers:
        line.push(Ticket(number, "normal", 0.0, tenant), 1.0, 0.0)


def test_fair_saves_up_a_bounded_credit_for_a_tenant_that_was_away() -> None:
    """A returning tenant first gets its credit, far less than it missed, and then takes turns; a new one has none."""
    line = FairShare()
    line_up(line, "away", range(1))
    assert taken(line, 1) == ["away"]
    line_up(line, "stayed", range(1, 2000))
    taken(line, 1000)
    line_up(line, "away", range(2000, 2100))
    assert set(taken(line, CREDIT_TICKETS)) == {"away"}
    assert taken(line, 20).count("away") in {10, 11}
    line_up(line, "new", range(3000, 3100))
    assert taken(line, 30).count("new") in {10, 11}


def test_fair_expects_a_ticket_where_its_turn_will_come() -> None:
    """Of a tenant with credit nothing goes before; of one that waits, as much of each other as of itself."""
    line = FairShare()
    assert line.ahead("light") == 0
    line_up(line, "light", range(1))
    line_up(line, "heavy", range(1, 201))
    taken(line, 100)
    assert (line.ahead("light"), line.ahead("new"), line.ahead("heavy")) == (0, 1, len(line))
    line_up(line, "other", range(300, 305))
    assert line.ahead("other") in {9, 10, 11}
    taken(line, 5)
    assert line.ahead("light") == 0


@pytest.mark.parametrize("tenants", [10, 64, 200])
def test_fair_expects_a_new_tenant_behind_those_that_came_before_it(tenants: int) -> None:
    """One ticket of each of many tenants: a new one is the last of them, however many are compared."""
    line = FairShare()
    for number in range(tenants):
        line_up(line, f"tenant {number}", range(number, number + 1))
    assert line.ahead("new") == tenants


def test_fair_raises_a_new_tenant_to_the_last_one_served_when_none_waits() -> None:
    """An empty queue forgets nothing: the second tenant does not get what the first one had."""
    line = FairShare()
    line.push(Ticket(1, "normal", 0.0, "first"), 1.0, 0.0)
    line.charge(Ticket(1, "normal", 0.0, "first"), 1000.0)
    line.remove(1)
    for number in range(2, 12):
        line.push(Ticket(number, "normal", 0.0, "first" if number % 2 else "second"), 1.0, 0.0)
    order = []
    while (head := line.head(0.0)) is not None:
        line.charge(head, 10.0)
        line.remove(head.id)
        order.append(head.tenant)
    assert order[:4].count("second") == 2


def test_fair_gives_back_what_was_guessed_too_much() -> None:
    """A tenant that used less than it was charged moves up again, though it waits further back by then."""
    line = FairShare()
    for number, tenant in enumerate("abab"):
        line.push(Ticket(number, "normal", 0.0, tenant), 1.0, 0.0)
    for tenant, tokens in (("a", 1000.0), ("b", 100.0)):
        head = line.head(0.0)
        assert head is not None
        assert head.tenant == tenant
        line.charge(head, tokens)
        line.remove(head.id)
    assert line.head(0.0) == Ticket(3, "normal", 0.0, "b")
    line.charge(Ticket(3, "normal", 0.0, "b"), 2000.0)
    assert line.head(0.0) == Ticket(2, "normal", 0.0, "a")
    line.charge(Ticket(2, "normal", 0.0, "a"), 5000.0)
    assert line.head(0.0) == Ticket(3, "normal", 0.0, "b")
    line.correct(Ticket(0, "normal", 0.0, "a"), -5990.0)
    assert line.head(0.0) == Ticket(2, "normal", 0.0, "a")


def test_fair_forgets_tenants_it_has_not_seen_for_long() -> None:
    """However many names pass by, the memory is bounded; a correction for a forgotten one is dropped."""
    line = FairShare()
    for number in range(RECENT + 500):
        ticket = Ticket(number, "normal", 0.0, f"tenant {number}")
        line.push(ticket, 1.0, 0.0)
        line.charge(ticket, 5.0)
        line.remove(number)
    assert (len(line._idle), len(line._waiting)) == (RECENT, 0)
    line.correct(Ticket(0, "normal", 0.0, "tenant 0"), 7.0)
    assert "tenant 0" not in line._idle


def test_fair_sweeps_its_heap() -> None:
    """Corrections, however many, leave no dead entries to pile up."""
    line, ticket = FairShare(), Ticket(1, "normal", 0.0, "one")
    line.push(ticket, 1.0, 0.0)
    for _ in range(1000):
        line.charge(ticket, 10.0)
        line.correct(ticket, -9.0)
    assert len(line._heap) < 100
    assert line.head(0.0) is ticket
