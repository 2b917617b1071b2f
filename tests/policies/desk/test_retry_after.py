"""Retry-After of a refused request."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.desk.retry_after import DrainRate, Spread, retry_after_ms

DRAWS = 50


def drained(per_s: float, for_s: float) -> tuple[DrainRate, float]:
    """A queue that stands, which seats have been leaving at this rate for so long, and the time now."""
    rate = DrainRate()
    rate.began(0.0)
    for number in range(int(per_s * for_s) + 1):
        rate.departed(1, number / per_s)
    return rate, for_s


def mean_advice_s(rate: DrainRate, waiting: int, freed_per_s: float | None, now_s: float) -> float:
    return sum(rate.retry_after_s(waiting, freed_per_s, now_s) for _ in range(DRAWS)) / DRAWS


@given(
    gaps_s=st.lists(st.floats(0, 1e5, allow_nan=False), max_size=30),
    waiting=st.integers(0, 1_000_000),
    later_s=st.floats(0, 1e7),
    freed_per_s=st.none() | st.floats(0, 1e9),
)
def test_the_advice_is_always_a_whole_number_from_1_to_30(
    gaps_s: list[float], waiting: int, later_s: float, freed_per_s: float | None
) -> None:
    """Whatever has happened, Retry-After is a whole number of seconds that a client can obey."""
    rate, now_s = DrainRate(), 0.0
    for gap_s in gaps_s:
        now_s += gap_s
        rate.departed(1, now_s)
    advice = rate.retry_after_s(waiting, freed_per_s, now_s + later_s)
    assert isinstance(advice, int)
    assert 1 <= advice <= 30


@pytest.mark.parametrize(("waiting", "per_s"), [(0, 5.0), (20, 5.0), (50, 5.0), (100, 5.0), (100, 20.0)])
@pytest.mark.parametrize("freed_per_s", [0.0, 100.0])
def test_the_advice_is_the_time_in_which_the_queue_will_be_gone(waiting: int, per_s: float, freed_per_s: float) -> None:
    """At a steady rate clients come back when the queue ahead of them is gone, give or take a quarter: after a minute
    only what has left it counts."""
    rate, now_s = drained(per_s, 60.0)
    expected_s = waiting / per_s
    for _ in range(DRAWS):
        assert max(1, 0.7 * expected_s) <= rate.retry_after_s(waiting, freed_per_s, now_s) <= 1.35 * expected_s + 1


def test_a_longer_queue_means_a_longer_wait() -> None:
    """On average the advice grows with the number waiting, up to its bound."""
    rate, now_s = drained(4.0, 30.0)
    means_s = [mean_advice_s(rate, waiting, 4.0, now_s) for waiting in (1, 10, 30, 60, 100, 1_000)]
    assert means_s == sorted(means_s)
    assert means_s[0] == 1
    assert 26 <= means_s[-1] <= 28


def test_clients_refused_together_are_not_sent_back_together() -> None:
    """A hundred refusals of one instant are spread over several seconds."""
    rate, now_s = drained(5.0, 60.0)
    advice = [rate.retry_after_s(80, 5.0, now_s) for _ in range(100)]
    assert len(set(advice)) >= 6
    assert max(advice.count(one) for one in advice) <= 30


def test_at_a_cold_start_the_advice_is_the_time_it_has_taken_so_far() -> None:
    """No seat has come free, so only that is known: a second or two at first, and at most the bound."""
    rate = DrainRate()
    rate.began(100.0)
    rate.departed(32, 100.1)
    assert {rate.retry_after_s(10_000, None, 100.2) for _ in range(DRAWS)} == {1}
    assert 6 <= min(draws := [rate.retry_after_s(10_000, None, 108.0) for _ in range(DRAWS)]) < max(draws) <= 10
    assert {rate.retry_after_s(10_000, None, 500.0) for _ in range(DRAWS)} == set(range(25, 31))


def test_the_speed_of_the_engine_counts_while_the_queue_is_young() -> None:
    """Before it began to stand one request came every five seconds; 1600 seats a second can come free."""
    rate = DrainRate()
    for number in range(10):
        rate.departed(1, 5.0 * number)
    rate.began(50.0)
    rate.departed(32, 50.02)
    assert mean_advice_s(rate, 8_000, 1_600.0, 50.03) == pytest.approx(5.0, abs=0.6)
    assert rate.retry_after_s(500, 1_600.0, 50.03) == 1


def test_a_queue_that_stands_still_sends_clients_far_away() -> None:
    """However quick the engine was: minutes after the last departure the advice is the bound."""
    rate, now_s = drained(10.0, 20.0)
    assert 24 < rate.retry_after_s(50, 1_000.0, now_s + 300.0) <= 30


def test_the_rate_follows_a_change_within_half_a_minute() -> None:
    """The minute before is forgotten."""
    rate, now_s = drained(20.0, 60.0)
    assert rate.per_s(0.0, now_s) == pytest.approx(20.0, rel=0.05)
    for number in range(30):
        rate.departed(1, now_s + number)
    assert rate.per_s(0.0, now_s + 30) == pytest.approx(1.0, abs=1.0)


@given(expected_s=st.floats(2, 1e6), refused=st.integers(8, 200), before=st.integers(0, 100))
def test_of_clients_refused_together_few_return_in_the_same_second(
    expected_s: float, refused: int, before: int
) -> None:
    """Half the expected wait is theirs to be spread over; near the bound, the last fifth below it."""
    rate = DrainRate()
    rate.began(0.0)
    advice = [rate.retry_after_s(1, None, expected_s) for _ in range(before + refused)][before:]
    spread_s = min(0.5 * expected_s, 6.0)
    assert max(advice.count(one) for one in advice) <= refused / spread_s + 4


@given(waits_s=st.lists(st.floats(0, 1e6), min_size=2, max_size=2))
def test_a_longer_wait_is_never_advised_a_shorter_one(waits_s: list[float]) -> None:
    """For the same place in the sequence."""
    found = []
    for expected_s in sorted(waits_s):
        rate = DrainRate()
        rate.began(0.0)
        found.append([rate.retry_after_s(1, None, expected_s) for _ in range(20)])
    assert all(shorter <= longer for shorter, longer in zip(*found, strict=True))


@given(retry_after_s=st.integers(1, 30), draws=st.integers(1, 100))
def test_milliseconds_round_up_to_their_seconds(retry_after_s: int, draws: int) -> None:
    """And are never less than half a second."""
    spread = Spread()
    found_ms = [retry_after_ms(retry_after_s, spread) for _ in range(draws)]
    assert {math.ceil(one / 1000) for one in found_ms} == {retry_after_s}
    assert min(found_ms) > 500 or retry_after_s > 1
    assert len(set(found_ms)) == draws
