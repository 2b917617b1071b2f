"""The rates of tenants: what is admitted, what a refusal says, settlement, reloads, and bounds on memory and cost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cost_growth import lines_run
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.entitlement import Allowance, Allowances, Entitlement, Rate, TenantRates
from headway_policies.entitlement.tenant_rates import MAX_TENANTS

TEAM = Entitlement("team", requests_per_minute=60, tokens_per_minute=6000)


def admitted(rates: TenantRates, entitlement: Entitlement, tokens: float, now_s: float = 0.0) -> bool:
    return rates.admit(entitlement, tokens, now_s) is None


def test_a_tenant_without_rates_is_neither_bounded_nor_remembered() -> None:
    """Whatever it asks for."""
    rates = TenantRates()
    assert all(admitted(rates, Entitlement("free"), 1e9) for _ in range(1000))
    rates.settle("free", 1e9, 5e9, 1.0)
    assert len(rates) == 0
    assert rates.left(Entitlement("free"), 1.0) == Allowances()


def test_a_minute_of_requests_at_once_and_then_one_a_second() -> None:
    """The refusal says which rate, how long, and what is left of both."""
    rates = TenantRates()
    assert all(admitted(rates, TEAM, 10) for _ in range(60))
    refusal = rates.admit(TEAM, 10, 0.0)
    assert refusal is not None
    assert refusal.rate is Rate.REQUESTS
    assert refusal.retry_after_s == pytest.approx(1.0)
    assert refusal.left == Allowances(Allowance(60, 0, 60), Allowance(6000, 5400, 6))
    assert admitted(rates, TEAM, 10, 1.0)
    assert not admitted(rates, TEAM, 10, 1.0)


def test_the_longer_wait_of_the_two_counts_and_nothing_is_taken() -> None:
    """A request that lacks tokens does not use up a request."""
    rates = TenantRates()
    assert admitted(rates, TEAM, 5950)
    for _ in range(100):
        refusal = rates.admit(TEAM, 1050, 0.0)
        assert refusal is not None
        assert (refusal.rate, refusal.retry_after_s) == (Rate.TOKENS, pytest.approx(10.0))
    left = rates.left(TEAM, 0.0)
    assert left.requests is not None
    assert left.requests.remaining == 59


def test_a_request_larger_than_a_minute_is_never_admitted() -> None:
    """No wait is named for it."""
    refusal = TenantRates().admit(TEAM, 6001, 0.0)
    assert refusal is not None
    assert (refusal.rate, refusal.retry_after_s) == (Rate.TOKENS, None)


def test_a_rate_below_one_a_minute_lets_a_request_through() -> None:
    """One each two minutes."""
    rates, slow = TenantRates(), Entitlement("slow", requests_per_minute=0.5)
    assert admitted(rates, slow, 10)
    assert not admitted(rates, slow, 10, 119.0)
    assert admitted(rates, slow, 10, 120.0)


@pytest.mark.parametrize(
    ("used", "remaining"), [(1000, 5000), (400, 5600), (0, 6000), (9000, 0)], ids=["as said", "less", "none", "more"]
)
def test_a_request_that_has_ended_is_charged_what_it_used(used: float, remaining: float) -> None:
    """Usage beyond its estimate is owed."""
    rates = TenantRates()
    assert admitted(rates, TEAM, 1000)
    rates.settle("team", 1000, used, 0.0)
    left = rates.left(TEAM, 0.0).tokens
    assert left is not None
    assert left.remaining == remaining
    assert left.reset_s == pytest.approx(used / 100)


def test_tenants_do_not_use_each_other_s_rates() -> None:
    """One that is over its rate leaves another as it was."""
    rates, other = TenantRates(), replace(TEAM, tenant="other")
    assert admitted(rates, TEAM, 6000)
    assert not admitted(rates, TEAM, 6000)
    assert admitted(rates, other, 6000)


def test_a_reload_keeps_what_was_used() -> None:
    """Of other rates the used part is used; rates that are taken away bound nothing; new ones begin with a minute."""
    rates = TenantRates()
    assert admitted(rates, TEAM, 6000)
    assert admitted(rates, replace(TEAM, tokens_per_minute=9000), 3000)
    assert not admitted(rates, replace(TEAM, tokens_per_minute=9000), 1)
    assert not admitted(rates, replace(TEAM, tokens_per_minute=9000, share=5.0), 1)
    assert admitted(rates, replace(TEAM, tokens_per_minute=None), 1e9)
    assert admitted(rates, Entitlement("team"), 1e9)
    assert len(rates) == 0
    assert admitted(rates, TEAM, 6000)


uses = st.lists(
    st.tuples(st.floats(0, 20), st.integers(0, 400), st.booleans(), st.floats(0, 1)), min_size=1, max_size=40
)


@given(uses=uses, requests=st.integers(1, 60), tokens=st.integers(100, 3000))
def test_no_interval_admits_more_than_its_rates_and_one_minute(
    uses: list[tuple[float, int, bool, float]], requests: int, tokens: int
) -> None:
    """Of requests and of tokens used, over every interval, with two tenants between each other."""
    rates, now_s = TenantRates(), 0.0
    tenants = [Entitlement(name, requests_per_minute=requests, tokens_per_minute=tokens) for name in "ab"]
    done: dict[str, list[tuple[float, float, float]]] = {"a": [], "b": []}
    for pause_s, estimated, second, ratio in uses:
        now_s += pause_s
        tenant = tenants[second]
        if rates.admit(tenant, estimated, now_s) is None:
            rates.settle(tenant.tenant, estimated, estimated * ratio, now_s)
            done[tenant.tenant].append((now_s, 1.0, estimated * ratio))
    for admissions in done.values():
        for first, (begin_s, _, _) in enumerate(admissions):
            for last in range(first, len(admissions)):
                minutes = (admissions[last][0] - begin_s) / 60
                among = admissions[first : last + 1]
                assert sum(one for _, one, _ in among) <= requests * (1 + minutes) + 1e-6
                assert sum(used for _, _, used in among) <= tokens * (1 + minutes) + 1e-3


def named(number: int) -> Entitlement:
    return replace(TEAM, tenant=f"tenant-{number}")


def test_a_bounded_number_of_tenants_is_remembered() -> None:
    """The one that was not seen for the longest time is forgotten; its settlement is dropped."""
    rates = TenantRates()
    for number in range(MAX_TENANTS):
        assert admitted(rates, named(number), 6000)
    assert not admitted(rates, named(0), 6000)
    assert admitted(rates, named(MAX_TENANTS), 6000)
    assert len(rates) == MAX_TENANTS
    rates.settle("tenant-1", 6000, 9000, 0.0)
    assert not admitted(rates, named(0), 6000)
    assert admitted(rates, named(1), 6000)


def test_the_cost_of_a_request_does_not_depend_on_the_tenants_or_on_the_time() -> None:
    """As many lines with ten thousand tenants, after a million requests' time, as with one."""
    few, many = TenantRates(), TenantRates()
    for number in range(MAX_TENANTS):
        many.admit(named(number), 10, 0.0)
    few.admit(named(5), 10, 0.0)
    costs = [lines_run(lambda one=one: one.admit(named(5), 10, 1e6)) for one in (few, many)]
    assert costs[0] == costs[1] > 0
    settled = [lines_run(lambda one=one: one.settle("tenant-5", 10, 20, 2e6)) for one in (few, many)]
    assert settled[0] == settled[1] > 0
