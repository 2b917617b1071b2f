"""A rate that is forgotten exponentially."""

from __future__ import annotations

from math import e, exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.prediction.decaying_rate import DecayingRate, share_left

EVENTS = st.lists(st.tuples(st.floats(0, 20), st.integers(1, 64)), max_size=20)


@given(EVENTS, st.floats(0, 100), st.floats(0.1, 60))
def test_the_rate_is_the_sum_of_what_is_left_of_each_event(
    steps: list[tuple[float, int]], idle_s: float, memory_s: float
) -> None:
    """Each event by its age: the one number that is kept stands for all of them."""
    rate, now_s, events = DecayingRate(memory_s), 0.0, []
    for step_s, count in steps:
        now_s += step_s
        rate.add(count, now_s)
        events.append((now_s, count))
    now_s += idle_s
    expected = sum(count * exp(-(now_s - at_s) / memory_s) for at_s, count in events) / memory_s
    assert rate.per_s(now_s) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_a_constant_stream_has_its_own_rate() -> None:
    """Within the error of counting whole events."""
    rate = DecayingRate(10.0)
    for number in range(2000):
        rate.add(1, number * 0.05)
    assert rate.per_s(2000 * 0.05) == pytest.approx(20.0, rel=0.01)


def test_nothing_is_forgotten_while_no_time_passes() -> None:
    """A clock that goes back makes no event count more than once."""
    rate = DecayingRate(10.0, since_s=5.0)
    rate.add(3, 4.0)
    assert rate.per_s(3.0) == 0.3
    assert (share_left(-1.0, 10.0), share_left(0.0, 10.0), share_left(10.0, 10.0)) == (1.0, 1.0, pytest.approx(1 / e))
