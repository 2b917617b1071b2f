"""Retry-After of a refused request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.desk.retry_after import DrainRate

DRAWS = 50


def drained(per_s: float, for_s: float) -> tuple[DrainRate, float]:
    """A line from which tickets have been leaving at this rate for so long, and the time now."""
    rate = DrainRate()
    for number in range(int(per_s * for_s) + 1):
        rate.departed(number / per_s)
    return rate, for_s


def mean_advice_s(rate: DrainRate, waiting: int, now_s: float) -> float:
    return sum(rate.retry_after_s(waiting, now_s) for _ in range(DRAWS)) / DRAWS


@given(
    gaps_s=st.lists(st.floats(0, 1e5, allow_nan=False), max_size=30),
    waiting=st.integers(0, 1_000_000),
    later_s=st.floats(0, 1e7),
)
def test_the_advice_is_always_a_whole_number_from_1_to_30(gaps_s: list[float], waiting: int, later_s: float) -> None:
    """Whatever has happened, Retry-After is a whole number of seconds that a client can obey."""
    rate, now_s = DrainRate(), 0.0
    for gap_s in gaps_s:
        now_s += gap_s
        rate.departed(now_s)
    advice = rate.retry_after_s(waiting, now_s + later_s)
    assert isinstance(advice, int)
    assert 1 <= advice <= 30


@pytest.mark.parametrize(("waiting", "per_s"), [(0, 5.0), (20, 5.0), (50, 5.0), (100, 5.0), (100, 20.0)])
def test_the_advice_is_the_time_in_which_the_line_will_be_gone(waiting: int, per_s: float) -> None:
    """At a steady rate clients come back when the line ahead of them is gone, give or take a quarter."""
    rate, now_s = drained(per_s, 60.0)
    expected_s = waiting / per_s
    for _ in range(DRAWS):
        assert max(1, 0.7 * expected_s) <= rate.retry_after_s(waiting, now_s) <= 1.35 * expected_s + 1


def test_a_longer_line_means_a_longer_wait() -> None:
    """On average the advice grows with the number waiting, up to its bound."""
    rate, now_s = drained(4.0, 30.0)
    means_s = [mean_advice_s(rate, waiting, now_s) for waiting in (1, 10, 30, 60, 100, 1_000)]
    assert means_s == sorted(means_s)
    assert means_s[0] == 1
    assert means_s[-1] == 30


def test_clients_refused_together_are_not_sent_back_together() -> None:
    """A hundred refusals of one instant are spread over several seconds."""
    rate, now_s = drained(5.0, 60.0)
    advice = [rate.retry_after_s(80, now_s) for _ in range(100)]
    assert len(set(advice)) >= 6
    assert max(advice.count(one) for one in advice) <= 30


def test_at_a_cold_start_clients_may_come_back_soon() -> None:
    """Nothing has left yet, so nothing is known: the advice is a second or two."""
    assert {DrainRate().retry_after_s(10_000, 0.0) for _ in range(DRAWS)} <= {1, 2}


def test_a_line_that_stands_still_sends_clients_far_away() -> None:
    """Minutes after the last departure the advice is the bound."""
    rate, now_s = drained(10.0, 20.0)
    assert rate.retry_after_s(50, now_s + 300.0) == 30


def test_the_rate_follows_a_change_within_half_a_minute() -> None:
    """What happened a minute ago is forgotten."""
    rate, now_s = drained(20.0, 60.0)
    assert rate.per_s(now_s) == pytest.approx(20.0, rel=0.05)
    for number in range(30):
        rate.departed(now_s + number)
    assert rate.per_s(now_s + 30) == pytest.approx(1.0, abs=1.0)
