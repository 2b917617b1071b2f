"""Random numbers by index: repeatable, spread evenly, and unlike those of the next seed or stream."""

from __future__ import annotations

from statistics import correlation, fmean, pstdev

import pytest

from headway_simulator.engine_model.draws import normal, uniform

MANY = range(20_000)


def test_the_same_place_has_the_same_number_in_any_order() -> None:
    """A number depends on seed, stream and index alone."""
    forward = [uniform(7, 1, index) for index in range(50)]
    backward = [uniform(7, 1, index) for index in reversed(range(50))]
    assert forward == backward[::-1]
    assert len(set(forward)) == 50


@pytest.mark.parametrize("seed", [-3, 0, 1, 2**70])
def test_numbers_are_spread_evenly(seed: int) -> None:
    """Each tenth of the interval has a tenth of the numbers, for negative and for very large seeds too."""
    counts = [0] * 10
    for index in MANY:
        counts[int(10 * uniform(seed, 1, index))] += 1
    assert max(counts) - min(counts) < 250  # six standard deviations of the difference of two counts


@pytest.mark.parametrize(("seed", "stream", "ahead"), [(1, 1, 1), (2, 1, 0), (1, 2, 0)])
def test_neighbouring_numbers_are_independent(seed: int, stream: int, ahead: int) -> None:
    """Neither the next index, nor the next seed, nor the next stream tells anything of a number."""
    first = [uniform(1, 1, index) for index in MANY]
    second = [uniform(seed, stream, index + ahead) for index in MANY]
    assert abs(correlation(first, second)) < 0.03


def test_normal_numbers_have_mean_0_and_deviation_1() -> None:
    """The standard normal distribution."""
    found = [normal(3, 2, index) for index in MANY]
    assert fmean(found) == pytest.approx(0.0, abs=0.03)
    assert pstdev(found) == pytest.approx(1.0, rel=0.03)
