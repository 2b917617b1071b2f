"""The knee of a curve."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_simulator.studies.knee import knee_of


@pytest.mark.parametrize(
    ("costs", "gains", "place"),
    [
        ([0, 1, 2, 3, 4], [0, 4, 5, 5.5, 6], 1),
        ([0, 1, 2, 3, 4], [0, 1, 2, 5, 5.1], 3),
        ([10, 20, 40, 80], [100, 190, 230, 240], 1),
        ([0, 1, 2, 3], [0, 1, 2, 3], None),
        ([0, 1, 2, 3], [0, 0.1, 0.5, 3], None),
        ([0, 1], [0, 1], None),
        ([], [], None),
        ([3, 2, 1], [1, 2, 3], None),
        ([1, 2, 3], [3, 2, 1], None),
        ([1, 1, 1], [1, 2, 3], None),
    ],
)
def test_the_knee_is_the_point_farthest_above_the_chord(
    costs: list[float], gains: list[float], place: int | None
) -> None:
    """None for a line, a curve that bends the other way, one that does not rise, and fewer than three points."""
    assert knee_of(costs, gains) == place


@given(st.floats(0.5, 3.0), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.floats(-10, 10))
def test_the_knee_does_not_depend_on_the_units(bend: float, wide: float, high: float, shift: float) -> None:
    """Seconds or milliseconds, tokens or requests."""
    costs = [number / 10 for number in range(11)]
    gains = [1 - math.exp(-bend * 4 * cost) for cost in costs]
    scaled = knee_of([wide * cost + shift for cost in costs], [high * gain + shift for gain in gains])
    assert scaled == knee_of(costs, gains)


def test_the_knee_is_where_the_slope_is_that_of_the_chord() -> None:
    """Of -1 / x from 0.1 to 1 the chord has a slope of 10, which the curve has at the root of 0.1."""
    costs = [0.1 + 0.01 * number for number in range(91)]
    place = knee_of(costs, [-1 / cost for cost in costs])
    assert place is not None
    assert costs[place] == pytest.approx(math.sqrt(0.1), abs=0.01)
