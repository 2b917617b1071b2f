"""Quantiles of a histogram of the server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_tools.load.histogram import Histogram

BOUNDS = (0.1, 0.5, 1.0)


def histogram(values: list[float]) -> Histogram:
    """Cumulative counts of these values."""
    buckets = {str(bound): sum(value <= bound for value in values) for bound in BOUNDS}
    return Histogram(buckets | {"+Inf": len(values)})


@pytest.mark.parametrize(
    ("values", "ratio", "expected"),
    [
        pytest.param([], 0.95, None, id="nothing observed"),
        pytest.param([0.3], 0.5, 0.3, id="the middle of the bucket"),
        pytest.param([0.05] * 9 + [0.7], 0.9, 0.1, id="the end of a bucket"),
        pytest.param([0.05, 0.7, 0.7, 0.7, 0.7], 0.6, 0.75, id="a part of the bucket"),
        pytest.param([0.7, 5.0], 0.95, 1.0, id="beyond the last bound"),
    ],
)
def test_a_quantile_is_interpolated_inside_its_bucket(
    values: list[float], ratio: float, expected: float | None
) -> None:
    """As by Prometheus."""
    assert histogram(values).quantile(ratio) == (None if expected is None else pytest.approx(expected))


@given(st.lists(st.floats(0.001, 0.999), min_size=1), st.floats(0.01, 1))
def test_a_quantile_lies_in_the_bucket_of_the_value_by_rank(values: list[float], ratio: float) -> None:
    """The error is never more than the width of one bucket."""
    found = histogram(values).quantile(ratio)
    assert found is not None
    upper = min(bound for bound in BOUNDS if found <= bound + 1e-9)
    assert sum(value <= upper for value in values) >= ratio * len(values) - 1e-6
    lower = max((bound for bound in BOUNDS if bound < upper), default=0.0)
    assert sum(value <= lower for value in values) <= ratio * len(values) + 1e-6


def test_what_was_observed_between_two_scrapes_is_a_histogram_too() -> None:
    """Bound by bound; one that was not there before counted nothing."""
    assert histogram([0.3, 0.7]).since(histogram([0.3])) == histogram([0.7])
    assert histogram([0.3]).since(Histogram()) == histogram([0.3])
