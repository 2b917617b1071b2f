"""The straight line of the benchmarks: known constants come back, noise makes none negative."""

from __future__ import annotations

import pytest
from serving.line import Point, line


def test_exact_measurements_give_the_constants_back() -> None:
    """29 ms a step, 1.06 a sequence."""
    points = [Point(number, 0.029 + 0.00106 * number) for number in (1, 2, 4, 8, 32)]
    assert line(points, "") == (pytest.approx(0.029), pytest.approx(0.00106))


@pytest.mark.parametrize(
    "points", [[Point(1, 0.03), Point(8, 0.02)], [Point(10, 0.001), Point(100, 0.5)]], ids=["falling", "too steep"]
)
def test_noise_never_makes_a_constant_negative(points: list[Point]) -> None:
    """Tokens that come faster together, first tokens that cost nothing alone."""
    base_s, slope_s = line(points, "")
    assert base_s >= 0
    assert slope_s >= 0


@pytest.mark.parametrize("points", [[], [Point(1, 0.1), Point(1, 0.2)]], ids=["none", "one place"])
def test_too_little_is_refused_by_name(points: list[Point]) -> None:
    """Two different points at least."""
    with pytest.raises(ValueError, match="concurrencies are needed"):
        line(points, "concurrencies")
