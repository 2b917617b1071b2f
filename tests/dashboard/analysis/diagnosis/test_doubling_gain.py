"""The gain of twice the seats, from batches and tokens a second that were measured together."""

from __future__ import annotations

from math import inf, nan

import pytest

from headway_dashboard.analysis.diagnosis.doubling_gain import doubling_gain

RISING = [float(batch) for batch in range(4, 33, 2)]


def rates(batches: list[float], base_s: float, seat_s: float) -> list[float]:
    """The tokens a second of an engine whose step grows by a straight line."""
    return [batch / (base_s + seat_s * batch) for batch in batches]


@pytest.mark.parametrize(
    ("base_s", "seat_s", "gain"),
    [(0.03, 0.0, 1.0), (0.032, 0.001, 1 / 3), (0.0, 0.01, 0.0)],
    ids=["a flat step", "half of it grows", "all of it grows"],
)
def test_the_gain_of_twice_the_seats_is_read_from_what_was_measured(base_s: float, seat_s: float, gain: float) -> None:
    """A step of 32 ms and 1 ms a sequence: 32 take 64 ms, 64 take 96 ms, so a third more tokens a second."""
    assert doubling_gain(RISING, rates(RISING, base_s, seat_s)) == pytest.approx(gain, abs=1e-9)


@pytest.mark.parametrize(
    "batches",
    [[], RISING[:7], [32.0] * 20, [None, 0.0, *[30.0, 32.0] * 10]],
    ids=["nothing", "too few", "always full", "too narrow"],
)
def test_batches_that_hardly_differ_tell_no_gain(batches: list[float | None]) -> None:
    """A line through one point has any slope."""
    assert doubling_gain(batches, [100.0] * len(batches)) is None


@pytest.mark.parametrize("wrong", [None, nan, inf])
def test_what_is_no_number_is_left_out(wrong: float | None) -> None:
    """A point that is missing, in either line, changes nothing."""
    found = rates(RISING, 0.032, 0.001)
    assert doubling_gain([*RISING[:-1], wrong, RISING[-1]], [*found[:-1], 7.0, found[-1]]) == pytest.approx(1 / 3)
    assert doubling_gain([*RISING[:-1], 7.0, RISING[-1]], [*found[:-1], wrong, found[-1]]) == pytest.approx(1 / 3)
