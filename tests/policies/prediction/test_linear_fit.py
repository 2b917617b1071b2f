"""A line through points that come one by one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.prediction.linear_fit import LinearFit


def fitted(points: list[tuple[float, float]], memory: int = 32) -> LinearFit:
    fit = LinearFit(memory)
    for x, y in points:
        fit.add(x, y)
    return fit


def test_a_line_is_found() -> None:
    """Points on a line give back its two coefficients."""
    fit = fitted([(number % 7, 0.5 + 0.25 * (number % 7)) for number in range(60)])
    assert (fit.intercept, fit.slope) == (pytest.approx(0.5), pytest.approx(0.25))
    assert fit.at(100) == pytest.approx(25.5)


@pytest.mark.parametrize(
    ("points", "intercept", "slope"),
    [
        pytest.param([(4, 2.0)] * 9, 2.0, 0.0, id="x never moved"),
        pytest.param([(1, 3.0), (2, 2.0), (3, 1.0)], 2.0, 0.0, id="a falling line"),
        pytest.param([(1, 0.0), (3, 4.0)], 0.0, 1.0, id="a negative intercept"),
        pytest.param([], 0.0, 0.0, id="nothing"),
        pytest.param([(1, 2.0), (1, math.nan), (math.inf, 1.0), (-1, 5.0), (1, -3.0)], 2.0, 0.0, id="no points"),
    ],
)
def test_neither_coefficient_is_negative(points: list[tuple[float, float]], intercept: float, slope: float) -> None:
    """Where the points want a negative coefficient, or say nothing, it is 0."""
    fit = fitted(points)
    assert (fit.intercept, fit.slope) == (pytest.approx(intercept), pytest.approx(slope))


def test_old_points_are_forgotten() -> None:
    """A new line takes over within a few memories."""
    fit = fitted([(number % 5, 1.0) for number in range(100)], memory=16)
    for number in range(100):
        fit.add(number % 5, 3.0 + number % 5)
    assert (fit.intercept, fit.slope) == (pytest.approx(3.0, rel=0.02), pytest.approx(1.0, rel=0.02))


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), max_size=100))
def test_whatever_comes_the_coefficients_are_finite_and_not_negative(points: list[tuple[float, float]]) -> None:
    """No history of points leads to a coefficient that cannot be used."""
    fit = fitted(points)
    for value in (fit.slope, fit.intercept, fit.error):
        assert 0 <= value < math.inf
