"""What fits a budget: bounds that are never exceeded, what is lent, and what a restart leaves."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headway_policies.budgets import (
    BOUNDS,
    Action,
    Bound,
    Budget,
    BudgetBook,
    Calendar,
    Finding,
    Owned,
    Span,
    Unit,
    budgets_of,
)

NOON_S = 1_800_014_400.0  # 12:00 in UTC, in the middle of a month
HOUR_S = 3600.0
TOKENS_A_DAY, TOKENS_AN_HOUR = Bound(Unit.TOKENS, Span.DAY), Bound(Unit.TOKENS, Span.HOUR)
REQUESTS_AN_HOUR = Bound(Unit.REQUESTS, Span.HOUR)
SEATS_A_DAY = Bound(Unit.SEAT_SECONDS, Span.DAY)
NOTHING = dict.fromkeys(Unit, 0.0)


def owned(limits: Mapping[Bound, float], name: str = "a", **more: Any) -> tuple[Owned, ...]:
    """A tenant by itself."""
    return (Owned(name, Budget(limits, **more)),)


def refused(found: list[Finding]) -> list[Finding]:
    """The refusals."""
    return [one for one in found if one.action is Action.REFUSE]


def run(book: BudgetBook, owners: tuple[Owned, ...], tokens: float, now_s: float, used: float | None = None) -> bool:
    """A request from its begin to its end, if it fits."""
    if refused(book.judge(owners, tokens, now_s)):
        return False
    hold = book.hold(owners, tokens)
    book.add(owners[0].name, 1, tokens if used is None else used, 1.0, now_s)
    book.release(hold)
    return True


@given(
    st.sampled_from([bound for bound in BOUNDS if bound.unit is not Unit.SEAT_SECONDS]),
    st.integers(1, 60),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 12), st.floats(0, 3000), st.booleans()), max_size=60),
)
def test_no_bound_is_exceeded_in_any_period(
    bound: Bound, limit: int, steps: list[tuple[int, int, float, bool]]
) -> None:
    """With requests that overlap, estimates that are too large, and a clock that is a month ahead at times; told by
    sums of its own.
    """
    book, owners, now_s, right_s = BudgetBook(), owned({bound: limit}), NOON_S, NOON_S
    running, sums = [], dict[float, float]()
    for estimate, ends, pause_s, ahead in steps:
        right_s += pause_s
        now_s = right_s + ahead * 30 * 24 * HOUR_S
        if not refused(book.judge(owners, estimate, now_s)):
            running.append((book.hold(owners, estimate), estimate))
        for _ in range(min(ends, len(running))):
            hold, most = running.pop(0)
            used = most // 2
            book.add("a", 1, used, 0.0, now_s)
            book.release(hold)
            start_s = Calendar().stretch(bound.span, now_s).start_s
            sums[start_s] = sums.get(start_s, 0) + (1 if bound.unit is Unit.REQUESTS else used)
    assert all(total <= limit for total in sums.values())
    state = next(book.states(owners[0], now_s))
    assert state.used == sums.get(Calendar().stretch(bound.span, now_s).start_s, 0)
    assert state.held == (len(running) if bound.unit is Unit.REQUESTS else sum(most for _, most in running))


def test_a_period_begins_anew_with_the_calendar() -> None:
    """Of its zone: in Berlin the day ends an hour before that of UTC does."""
    book, zone = BudgetBook(), Calendar(ZoneInfo("Europe/Berlin"))
    owners = owned({TOKENS_A_DAY: 100}, calendar=zone)
    assert run(book, owners, 100, NOON_S)
    (found,) = refused(book.judge(owners, 1, NOON_S))
    assert found.retry_after_s == 11 * HOUR_S
    assert not run(book, owners, 1, NOON_S + 11 * HOUR_S - 1)
    assert run(book, owners, 100, NOON_S + 11 * HOUR_S)


def test_the_time_until_a_request_may_fit() -> None:
    """Until the period ends; at once where only requests in progress are in the way; never where it is too large."""
    book, owners = BudgetBook(), owned({TOKENS_AN_HOUR: 100})
    hold = book.hold(owners, 80)
    assert [one.retry_after_s for one in book.judge(owners, 30, NOON_S)] == [5.0]
    assert [one.retry_after_s for one in book.judge(owners, 101, NOON_S)] == [None]
    book.add("a", 1, 80, 1.0, NOON_S)
    book.release(hold)
    assert [one.retry_after_s for one in book.judge(owners, 30, NOON_S)] == [HOUR_S]
    assert book.judge(owners, 20, NOON_S) == []


def test_concurrency_counts_what_is_in_progress() -> None:
    """And nothing that has ended."""
    book, owners = BudgetBook(), owned({}, concurrency=2)
    holds = [book.hold(owners, 5) for _ in range(2)]
    (found,) = book.judge(owners, 5, NOON_S)
    assert (found.bound, found.limit, found.retry_after_s) == ("concurrency", 2, 5.0)
    book.release(holds[0])
    assert book.judge(owners, 5, NOON_S) == []


def test_seat_seconds_are_refused_once_they_are_used() -> None:
    """They are known at the end only."""
    book, owners = BudgetBook(), owned({SEATS_A_DAY: 1.5})
    assert [run(book, owners, 10, NOON_S) for _ in range(3)] == [True, True, False]


def test_close_to_its_end_a_budget_lowers() -> None:
    """From the ratio on, until it refuses."""
    book, owners = BudgetBook(), owned({REQUESTS_AN_HOUR: 4}, soft_ratio=0.5)
    actions = []
    for _ in range(5):
        actions.append([one.action for one in book.judge(owners, 1, NOON_S)])
        run(book, owners, 1, NOON_S)
    assert actions == [[], [], [Action.LOWER], [Action.LOWER], [Action.REFUSE]]


def test_a_budget_that_only_counts_says_so() -> None:
    """In each of its findings."""
    book, owners = BudgetBook(), owned({REQUESTS_AN_HOUR: 1}, counts_only=True)
    book.hold(owners, 1)
    assert [(one.action, one.counts_only) for one in book.judge(owners, 1, NOON_S)] == [(Action.REFUSE, True)]


# ---------------------------------------------------------------------- organisations


def organisation(limit: float, *, borrows: bool, **members: float) -> dict[str, tuple[Owned, ...]]:
    """Tenants of one organisation, with a bound of tokens a day each, and one of all."""
    budgets = {name: Budget({TOKENS_A_DAY: bound}, borrows=borrows) for name, bound in members.items()}
    whole = Owned("acme", Budget({TOKENS_A_DAY: limit}), budgets)
    return {name: budgets_of(name, budget, whole) for name, budget in budgets.items()}


def test_the_bound_of_an_organisation_is_that_of_all_its_tenants() -> None:
    """Whichever of them uses it."""
    book, of = BudgetBook(), organisation(100, borrows=False, a=80, b=80)
    assert run(book, of["a"], 60, NOON_S)
    (found,) = refused(book.judge(of["b"], 60, NOON_S))
    assert (found.owner, found.bound) == ("organisation acme", "tokens_per_day")
    assert run(book, of["b"], 40, NOON_S)


def test_without_borrowing_a_tenant_ends_at_its_own_bound() -> None:
    """However idle the others are."""
    book, of = BudgetBook(), organisation(1000, borrows=False, a=80, b=80)
    assert [run(book, of["a"], 40, NOON_S) for _ in range(3)] == [True, True, False]


def test_what_is_idle_is_lent_as_the_day_goes_by() -> None:
    """Of the others' bounds their even share of the rest of the day is kept; a request on what is lent is lowered."""
    book, of = BudgetBook(), organisation(200, borrows=True, a=100, b=100)
    assert [run(book, of["a"], 50, NOON_S) for _ in range(3)] == [True, True, True]  # half of b's day is over
    assert not run(book, of["a"], 50, NOON_S)
    assert [one.action for one in book.judge(of["b"], 50, NOON_S)] == []
    assert run(book, of["b"], 50, NOON_S)
    book, late_s = BudgetBook(), NOON_S + 11.9 * HOUR_S
    assert run(book, of["a"], 100, late_s)
    assert [one.action for one in book.judge(of["a"], 90, late_s)] == [Action.LOWER]


@pytest.mark.parametrize("own", [{}, {TOKENS_AN_HOUR: 900.0}])
def test_a_member_without_a_bound_leaves_what_is_kept_for_others(own: dict[Bound, float]) -> None:
    """As one with a bound does."""
    a, b = Budget({TOKENS_A_DAY: 500.0}, borrows=True), Budget(own)
    whole = Owned("acme", Budget({TOKENS_A_DAY: 1000.0}), {"a": a, "b": b})
    book, begin_s = BudgetBook(), NOON_S - 12 * HOUR_S
    of_a, of_b = budgets_of("a", a, whole), budgets_of("b", b if own else None, whole)
    assert [run(book, of_b, 100, begin_s) for _ in range(6)] == [True] * 5 + [False]
    assert run(book, of_a, 100, begin_s)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 40), st.floats(0, 4000)), max_size=80),
    st.booleans(),
)
@example(
    steps=[*[("a", 1, 0)] * 3, ("a", 22, 0), ("a", 40, 0), ("a", 40, 2160), ("b", 20, 0), ("b", 40, 4), ("b", 40, 860)],
    borrows=True,
)
def test_lending_exceeds_no_organisation_and_leaves_each_member_its_share(
    steps: list[tuple[str, int, float]], borrows: bool
) -> None:
    """A member can use at any time what it has not used yet, but for the most by which it was ever behind the time."""
    of = organisation(300, borrows=borrows, a=100, b=100, c=100)
    book, now_s, used = BudgetBook(), NOON_S - 12 * HOUR_S, dict.fromkeys("abc", 0.0)
    unused = dict.fromkeys("abc", 0.0)
    for name, tokens, pause_s in steps:
        now_s += pause_s
        if Calendar().stretch(Span.DAY, now_s).start_s != NOON_S - 12 * HOUR_S:
            break
        rest_ratio = Calendar().stretch(Span.DAY, now_s).rest_ratio(now_s)
        unused = {one: max(unused[one], 100 * (1 - rest_ratio) - used[one]) for one in unused}
        if run(book, of[name], tokens, now_s):
            used[name] += tokens
        assert sum(used.values()) <= 300
        assert borrows or max(used.values()) <= 100
        for member, owners in of.items():
            share = int(100 - unused[member] - used[member])
            assert share < 1 or not refused(book.judge(owners, share, now_s))


# ---------------------------------------------------------------------- restarts and other servers


@given(st.lists(st.integers(1, 30), min_size=1, max_size=30), st.integers(0, 30))
def test_a_restart_forgets_nothing(sizes: list[int], stops: int) -> None:
    """What a new server is told from the accounting, and what it counts itself, is what one server would have used."""
    owners = owned({TOKENS_A_DAY: 200})
    book, total = BudgetBook(), 0
    for number, tokens in zip(count(), sizes):
        if number == stops:
            book = BudgetBook()
            whole = NOTHING | {Unit.TOKENS: float(total), Unit.REQUESTS: float(number)}
            start_s = Calendar().stretch(Span.DAY, NOON_S).start_s
            book.count_others(owners[0], Span.DAY, start_s, whole, whole)
        if run(book, owners, tokens, NOON_S):
            total += tokens
        else:
            assert total + tokens > 200
    assert total <= 200


@pytest.mark.parametrize(("least", "most", "found"), [(5, 9, 7), (8, 9, 8), (2, 3, 3), (-4, -1, 0)])
def test_the_use_of_others_stays_between_what_is_known_of_it(least: float, most: float, found: float) -> None:
    """Records that are written while the sums are read change nothing of a figure that can still be right."""
    (owner,), book = owned({TOKENS_A_DAY: 200}), BudgetBook()
    start_s = Calendar().stretch(Span.DAY, NOON_S).start_s
    for low, high in ((7, 7), (least, most)):
        bounds = [dict.fromkeys(Unit, float(one)) for one in (low, high)]
        book.count_others(owner, Span.DAY, start_s, *bounds)
    assert next(book.states(owner, NOON_S)).used == found


def test_what_others_used_in_another_period_does_not_count() -> None:
    """It comes from sums that were read before the day ended."""
    (owner,), book = owned({TOKENS_A_DAY: 200}), BudgetBook()
    next(book.states(owner, NOON_S))
    yesterday = dict.fromkeys(Unit, 50.0)
    book.count_others(owner, Span.DAY, NOON_S - 36 * HOUR_S, yesterday, yesterday)
    assert next(book.states(owner, NOON_S)).used == 0


@pytest.mark.parametrize("bound", [TOKENS_AN_HOUR, TOKENS_A_DAY, Bound(Unit.TOKENS, Span.MONTH)], ids=str)
@pytest.mark.parametrize("days", [1, 31, -31])
def test_a_clock_that_jumps_gives_nothing_back_and_closes_nothing(bound: Bound, days: int) -> None:
    """Whatever it says: each period has the use that it had, and is refused no longer than it lasts."""
    book, owners = BudgetBook(), owned({bound: 100})
    jumped_s = NOON_S + days * 24 * HOUR_S
    assert run(book, owners, 60, NOON_S)
    there = run(book, owners, 100, jumped_s)
    assert there is (Calendar().stretch(bound.span, jumped_s) != Calendar().stretch(bound.span, NOON_S))
    assert not run(book, owners, 50, NOON_S + 1)
    assert run(book, owners, 40, NOON_S + 2)
    (found,) = refused(book.judge(owners, 1, NOON_S + 3))
    assert found.retry_after_s == Calendar().stretch(bound.span, NOON_S).end_s - (NOON_S + 3)
    assert not run(book, owners, 100, jumped_s)


def test_a_bound_that_changes_keeps_what_was_used() -> None:
    """Live, from a file that is read again."""
    book = BudgetBook()
    assert run(book, owned({TOKENS_A_DAY: 100}), 100, NOON_S)
    assert not run(book, owned({TOKENS_A_DAY: 150}), 60, NOON_S)
    assert run(book, owned({TOKENS_A_DAY: 160}), 60, NOON_S)
