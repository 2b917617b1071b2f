"""Distributions against an independent count, and how far back the recent largest value looks."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.distribution import PERIOD_S, Distribution

BOUNDS = (0.1, 1.0, 5.0)
STEPS = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 40)), max_size=30)


@given(STEPS, st.floats(0, 100))
def test_buckets_sum_and_largest_values_are_those_of_the_values(
    steps: list[tuple[float, float]], then_s: float
) -> None:
    """The recent largest is at least that of the last period, and at most that of the last two."""
    seen = Distribution(BOUNDS)
    values, times_s = [value for value, _ in steps], list(accumulate((gap_s for _, gap_s in steps), initial=1000.0))[1:]
    for value, at_s in zip(values, times_s, strict=True):
        seen.add(value, at_s)
    now_s = (times_s[-1] if times_s else 1000.0) + then_s
    read = seen.read(now_s)
    assert read.buckets == [
        *((str(bound), float(sum(value <= bound for value in values))) for bound in BOUNDS),
        ("+Inf", float(len(values))),
    ]
    assert read.total == pytest.approx(sum(values))
    assert read.largest == max(values, default=0.0)
    surely, perhaps = (
        max(values[bisect_right(times_s, now_s - back_s) :], default=0.0) for back_s in (PERIOD_S, 2 * PERIOD_S)
    )
    assert surely <= read.recent_largest <= perhaps
    assert seen.read(now_s) == read


def test_nothing_was_recent_after_two_periods() -> None:
    """A long pause ends what the last moments had."""
    seen = Distribution(BOUNDS)
    seen.add(3.0, 0.0)
    assert seen.read(PERIOD_S).recent_largest == 3.0
    assert seen.read(2 * PERIOD_S).recent_largest == 0.0
    assert seen.read(2 * PERIOD_S).largest == 3.0
