"""The breaker: when it opens, which attempt probes, and that a late failure does not count twice."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.fallback.circuit_breaker import NEXT, BreakerState, CircuitBreaker, Verdict

ENDINGS = (Verdict.SUCCESS, Verdict.FAILURE, Verdict.UNDECIDED)


def opened(failures: int = 3, cool_s: float = 5.0) -> CircuitBreaker:
    """A breaker that has just opened, at second 0."""
    breaker = CircuitBreaker(failures, cool_s, max_cool_s=40.0)
    for _ in range(failures):
        fail(breaker, 0.0)
    assert breaker.state is BreakerState.OPEN
    return breaker


def fail(breaker: CircuitBreaker, now_s: float, verdict: Verdict = Verdict.FAILURE) -> None:
    """A try that ends at once."""
    number = breaker.begin(now_s)
    assert number is not None
    breaker.ended(number, verdict, now_s)


def test_only_the_moves_of_the_table_exist() -> None:
    """From each state, each ending leads where the table says, or nowhere."""
    for state, verdict in itertools.product(BreakerState, ENDINGS):
        breaker = CircuitBreaker(failures=2, state=state)
        breaker.ended(1, verdict, 0.0)
        assert breaker.state is NEXT.get((state, verdict), state)


def test_it_opens_after_failures_in_a_row_only() -> None:
    """A success in between starts the count anew; an undecided one does not."""
    breaker = CircuitBreaker(failures=3)
    for verdict in (Verdict.FAILURE, Verdict.FAILURE, Verdict.SUCCESS, Verdict.FAILURE, Verdict.UNDECIDED):
        fail(breaker, 0.0, verdict)
    fail(breaker, 0.0)
    assert breaker.state is BreakerState.CLOSED
    fail(breaker, 0.0)
    assert breaker.state is BreakerState.OPEN


def test_one_probe_goes_after_the_rest_and_closes_it() -> None:
    """None before the time, one at it, none beside the probe, all after its success."""
    breaker = opened()
    assert breaker.begin(4.999) is None
    probe = breaker.begin(5.0)
    assert probe is not None
    assert breaker.begin(5.0) is None
    breaker.ended(probe, Verdict.SUCCESS, 6.0)
    assert breaker.begin(6.0) is not None
    assert breaker.begin(6.0) is not None


def test_each_failed_probe_doubles_the_rest_up_to_a_bound() -> None:
    """5, 10, 20, 40, 40 seconds; a success starts anew with 5."""
    breaker, now_s = opened(), 0.0
    for rest_s in (5.0, 10.0, 20.0, 40.0, 40.0):
        assert breaker.begin(now_s + rest_s - 0.001) is None
        now_s += rest_s
        fail(breaker, now_s)
    now_s += 40.0
    fail(breaker, now_s, Verdict.SUCCESS)
    for _ in range(3):
        fail(breaker, now_s)
    assert breaker.begin(now_s + 5.0) is not None


def test_an_undecided_probe_is_followed_by_the_next_at_once() -> None:
    """A client that leaves must not keep the place shut."""
    breaker = opened()
    fail(breaker, 5.0, Verdict.UNDECIDED)
    assert breaker.begin(5.0) is not None


def test_a_late_ending_from_before_is_not_the_probes() -> None:
    """Of ten begun together the seven slow ones change nothing once three have opened it."""
    breaker = CircuitBreaker(failures=3)
    numbers = [breaker.begin(0.0) for _ in range(10)]
    for number in numbers[:3]:
        assert number is not None
        breaker.ended(number, Verdict.FAILURE, 0.0)
    probe = breaker.begin(5.0)
    assert probe is not None
    for number, verdict in zip(numbers[3:], itertools.cycle((Verdict.SUCCESS, Verdict.FAILURE)), strict=False):
        assert number is not None
        breaker.ended(number, verdict, 5.0)
    assert breaker.state is BreakerState.HALF_OPEN


@given(steps=st.lists(st.tuples(st.floats(0, 20), st.sampled_from(ENDINGS))))
def test_it_never_stays_shut(steps: list[tuple[float, Verdict]]) -> None:
    """Whatever happened, after the longest pause one attempt is allowed, and its success allows all."""
    breaker, now_s = CircuitBreaker(failures=2, cool_s=1.0, max_cool_s=8.0), 0.0
    for passed_s, verdict in steps:
        now_s += passed_s
        number = breaker.begin(now_s)
        if number is not None:
            breaker.ended(number, verdict, now_s)
    number = breaker.begin(now_s + 8.0)
    assert number is not None
    breaker.ended(number, Verdict.SUCCESS, now_s + 8.0)
    assert breaker.state is BreakerState.CLOSED


@pytest.mark.parametrize("opened_times", [0, 5, 5000])
def test_the_rest_stays_a_number(opened_times: int) -> None:
    """No overflow, however often it failed."""
    breaker, now_s = opened(), 0.0
    for _ in range(opened_times):
        now_s += 40.0
        fail(breaker, now_s)
    assert breaker.begin(now_s + 40.0) is not None
