"""The retry budget: its bound against a count from scratch, and what it lets pass."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.entitlement.retry_budget import LEAST, RATIO, TENANTS, WINDOW_S, RetryBudget

#: (seconds since the event before, tenant, whether it is a refused retry)
EVENTS = st.lists(st.tuples(st.floats(0, 20), st.sampled_from("ab"), st.booleans()), max_size=200)


def weight(times_s: list[float], now_s: float) -> float:
    """What these events weigh now, added up one by one."""
    return sum(math.exp(-(now_s - at_s) / WINDOW_S) for at_s in times_s)


@given(events=EVENTS)
def test_the_invited_retries_of_a_tenant_never_weigh_more_than_its_budget(
    events: list[tuple[float, str, bool]],
) -> None:
    """At every moment and for each tenant alone; and none is denied that would fit."""
    budget, now_s = RetryBudget(), 0.0
    first: dict[str, list[float]] = {"a": [], "b": []}
    invited: dict[str, list[float]] = {"a": [], "b": []}
    for gap_s, tenant, retry in events:
        now_s += gap_s
        if not retry:
            budget.first_try(tenant, now_s)
            first[tenant].append(now_s)
            continue
        room = RATIO * weight(first[tenant], now_s) + LEAST - weight(invited[tenant], now_s) - 1
        spent = budget.spend(tenant, now_s)
        if abs(room) > 1e-9:
            assert spent is (room > 0)
        if spent:
            invited[tenant].append(now_s)
        for one in "ab":
            assert weight(invited[one], now_s) <= RATIO * weight(first[one], now_s) + LEAST + 1e-9


@pytest.mark.parametrize("retries", [2, 5, 100])
def test_a_storm_is_bounded_whatever_number_of_retries_its_clients_are_set_to(retries: int) -> None:
    """Everything is refused, 50 first tries a second for a minute: at most 2.2 times as many arrive, and a few."""
    budget, arrivals, first_tries = RetryBudget(), 0, 0
    due: dict[int, list[int]] = {}
    for second in range(60):
        tries = [0] * 50 + due.pop(second, [])
        first_tries += 50
        arrivals += len(tries)
        for number in tries:
            if number == 0:
                budget.first_try("a", float(second))
            comes_again = number < retries and (number == 0 or budget.spend("a", float(second)))
            if comes_again:
                due.setdefault(second + 1, []).append(number + 1)
    assert arrivals <= (2 + RATIO) * first_tries + LEAST * (1 + 60 / WINDOW_S)


def test_a_tenant_with_few_requests_may_retry() -> None:
    """The constant is there before any first try, and comes back with time."""
    budget = RetryBudget()
    assert [budget.spend("a", 0.0) for _ in range(4)] == [True, True, True, False]
    assert budget.spend("b", 0.0)
    assert budget.spend("a", 5 * WINDOW_S)


def test_the_clock_may_stand_still_or_go_back() -> None:
    """The counts stay as they are."""
    budget = RetryBudget()
    assert all(budget.spend("a", 10.0) for _ in range(3))
    assert not budget.spend("a", 9.0)


def test_only_so_many_tenants_are_remembered() -> None:
    """The least recent one is forgotten, and starts anew."""
    budget = RetryBudget()
    for name in ("kept", "forgotten"):
        assert [budget.spend(name, 0.0) for _ in range(4)] == [True, True, True, False]
    assert not budget.spend("kept", 0.0)
    for number in range(TENANTS - 1):
        budget.first_try(f"t{number}", 0.0)
    assert len(budget._tenants) == TENANTS
    assert not budget.spend("kept", 0.0)
    assert budget.spend("forgotten", 0.0)
