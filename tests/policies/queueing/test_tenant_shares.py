"""Shares between the tenants of a class: tokens in proportion to the shares, and the bound on the difference."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.queueing.disciplines import Discipline, Fifo
from headway_policies.queueing.fair_share import CREDIT_TICKETS, FairShare
from headway_policies.queueing.prefix_share import QUANTUM_TOKENS, PrefixShare
from headway_policies.request import Ticket

LARGEST_TOKENS = 900


class Backlog:
    """Tenants that always wait, with some of their tickets running; what each was given is booked by an own account."""

    def __init__(self, line: Discipline, shares: dict[str, float], off_by: int, seed: int) -> None:
        self.line, self.shares, self.off_by = line, shares, off_by
        self.random, self.made = Random(seed), 0
        self.given = dict.fromkeys(shares, 0.0)
        self.longest_tokens = dict.fromkeys(shares, LARGEST_TOKENS)
        self.running: list[tuple[Ticket, float]] = []
        for tenant in [*shares, *shares]:
            self.push(tenant)

    def push(self, tenant: str) -> None:
        self.made += 1
        self.line.push(Ticket(self.made, "normal", 0.0, tenant, share=self.shares[tenant]), 1.0, 0.0)

    def run(self, seats: int, dispatches: int) -> float:
        """The largest difference between what any two were given by their shares, over any time."""
        gap, lowest = 0.0, {(one, other): 0.0 for one in self.shares for other in self.shares}
        for _ in range(dispatches):
            if len(self.running) == seats:
                self.line.correct(*self.running.pop(self.random.randrange(seats)))
            head = self.line.head(0.0)
            assert head is not None
            actual = self.random.randint(1, self.longest_tokens[head.tenant])
            guess = max(1, actual + self.random.randint(-self.off_by, self.off_by))
            self.line.charge(head, guess)
            self.line.remove(head.id)
            self.push(head.tenant)
            self.given[head.tenant] += actual
            self.running.append((head, actual - guess))
            for one, other in lowest:
                ahead = self.given[one] / self.shares[one] - self.given[other] / self.shares[other]
                lowest[one, other] = min(lowest[one, other], ahead)
                gap = max(gap, ahead - lowest[one, other])
        return gap


@pytest.mark.parametrize("off_by", [0, 300])
@given(
    seed=st.integers(0, 10_000),
    seats=st.integers(1, 12),
    share=st.sampled_from([0.25, 1.0, 2.0, 3.0, 50.0]),
    longest_tokens=st.sampled_from([20, LARGEST_TOKENS]),
)
def test_the_gap_by_share_is_bounded(off_by: int, seed: int, seats: int, share: float, longest_tokens: int) -> None:
    """Tokens divided by the shares differ by at most 2 * (A + E), where both always wait and have no credit."""
    backlog = Backlog(FairShare(), {"one": 1.0, "other": share}, off_by, seed)
    backlog.longest_tokens["one"] = longest_tokens
    gap = backlog.run(seats, dispatches=150)
    largest_tokens, error_tokens = LARGEST_TOKENS + off_by, 2 * seats * off_by
    assert 0 < gap <= 2 * (largest_tokens + error_tokens) / min(share, 1.0)


def test_first_come_first_served_breaks_that_bound() -> None:
    """The bound is one that a line without counters does not keep: the check can fail."""
    backlog = Backlog(Fifo(), {"one": 1.0, "other": 1.0}, 0, seed=1)
    backlog.longest_tokens["one"] = 20
    assert backlog.run(seats=4, dispatches=300) > 2 * LARGEST_TOKENS


@pytest.mark.parametrize("line", [FairShare, PrefixShare], ids=["fair", "prefix"])
@pytest.mark.parametrize("share", [1.0, 3.0])
def test_three_times_the_share_is_three_times_the_tokens(line: Callable[[], FairShare], share: float) -> None:
    """Of two tenants that always wait, as exactly as the bound says; with equal shares they get the same."""
    backlog = Backlog(line(), {"one": 1.0, "other": share}, 0, seed=4)
    backlog.run(seats=4, dispatches=4000)
    least, other = backlog.given["one"], backlog.given["other"]
    quantum_tokens = QUANTUM_TOKENS if line is PrefixShare else 0
    assert abs(other / share - least) <= 2 * (quantum_tokens + LARGEST_TOKENS)
    assert other / least == pytest.approx(share, rel=0.05)


def test_what_was_guessed_too_much_is_given_back_by_the_share_it_was_charged_by() -> None:
    """A ticket that used nothing leaves the counter as it was, though its tenant has another share by then."""
    line = FairShare()
    first = Ticket(1, "normal", 0.0, "a", share=4.0)
    line.push(first, 1.0, 0.0)
    line.push(Ticket(2, "normal", 0.0, "a", share=0.5), 1.0, 0.0)
    line.charge(first, 1000.0)
    line.remove(1)
    line.correct(first, -1000.0)
    assert line._waiting["a"].served_tokens == 0


def dispatched(line: FairShare) -> str:
    """Dispatch the head, of 10 tokens; its tenant."""
    head = line.head(0.0)
    assert head is not None
    line.charge(head, 10.0)
    line.remove(head.id)
    return head.tenant


@pytest.mark.parametrize("share", [0.25, 1.0, 4.0])
def test_the_credit_of_a_tenant_that_was_away_is_tickets_whatever_its_share(share: float) -> None:
    """On its return it is given the same number of tickets before the others."""
    line = FairShare()
    line.push(Ticket(0, "normal", 0.0, "away", share=share), 10.0, 0.0)
    assert dispatched(line) == "away"
    for number in range(1, 2000):
        line.push(Ticket(number, "normal", 0.0, "stayed"), 10.0, 0.0)
    for _ in range(1000):
        dispatched(line)
    for number in range(2000, 2100):
        line.push(Ticket(number, "normal", 0.0, "away", share=share), 10.0, 0.0)
    before = 0
    while dispatched(line) == "away":
        before += 1
    assert CREDIT_TICKETS - 1 <= before <= CREDIT_TICKETS + share


@pytest.mark.parametrize(("share", "other"), [(0.25, 1.0), (1.0, 1.0), (4.0, 1.0), (1.0, 4.0), (1.0, 0.25)])
@pytest.mark.parametrize("own", [0, 5])
def test_the_place_that_it_expects_for_a_ticket_is_where_its_turn_comes(share: float, other: float, own: int) -> None:
    """Among those of a tenant that waits with many, by the shares."""
    line = FairShare()
    for number in range(300):
        line.push(Ticket(number, "normal", 0.0, "many", share=other), 10.0, 0.0)
    line.push(Ticket(300, "normal", 0.0, "few", share=share), 10.0, 0.0)
    while "few" in line._waiting:
        dispatched(line)
    for number in range(301, 301 + own):
        line.push(Ticket(number, "normal", 0.0, "few", share=share), 10.0, 0.0)
    expected = line.ahead("few")
    line.push(Ticket(999, "normal", 0.0, "few", share=share), 10.0, 0.0)
    before = 0
    while (head := line.head(0.0)) is not None and head.id != 999:
        dispatched(line)
        before += 1
    assert abs(before - expected) <= 2 + other / share


@pytest.mark.parametrize("share", [0.0, -1.0, float("inf"), float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    """A ticket cannot be charged by it."""
    with pytest.raises(ValueError, match="ticket 1: share must be above 0"):
        Ticket(1, "normal", 0.0, share=share)


def test_a_tenant_far_below_its_share_gives_its_turn_to_nobody() -> None:
    """Neither one of several equal ones, nor the busy one, nor one that waits alone; and asking changes nothing."""
    line, ids = FairShare(), iter(range(1, 1000))

    def push(tenant: str) -> Ticket:
        ticket = Ticket(next(ids), "normal", 0.0, tenant)
        line.push(ticket, 1.0, 0.0)
        return ticket

    def serve(ticket: Ticket) -> None:
        line.charge(ticket, 100.0)
        line.remove(ticket.id)

    serve(push("quiet"))
    assert not line.owed(push("loud"))
    for _ in range(CREDIT_TICKETS):
        head = line.head(0.0)
        assert head is not None
        assert not line.owed(head)  # nobody else waits
        push("loud")
        serve(head)
    late = push("quiet")
    assert line.head(0.0) is late
    assert line.owed(late)
    assert not line.owed(next(one for one in line if one.tenant == "loud"))
    assert line.head(0.0) is late
    for _ in range(CREDIT_TICKETS // 2):  # it uses up half of its credit
        push("quiet")
        head = line.head(0.0)
        assert head is not None
        serve(head)
    rest = line.head(0.0)
    assert rest is not None
    assert not line.owed(rest)
