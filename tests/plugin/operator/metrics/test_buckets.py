"""The bounds of histogram buckets, where objectives may come to lie."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.operator.metrics.buckets import bounds
from headway.operator.metrics.meters import _INTER_TOKEN_S, _LONG_S
from headway.operator.presets import PresetCatalogue

USUAL = (0.1, 0.2, 0.5, 1.0, 5.0)


def test_fixed_objectives_are_bounds_and_nothing_else_is_added() -> None:
    """Outside of the ranges of relative ones the usual grid stays as it is."""
    assert bounds(USUAL) == USUAL
    assert bounds(USUAL, [0.42, 0.5]) == (0.1, 0.2, 0.42, 0.5, 1.0, 5.0)


def test_the_grid_is_fine_where_a_relative_objective_may_lie() -> None:
    """The ends of its range are bounds; wide buckets inside are divided; without an end, up to the last."""
    assert bounds(USUAL, [], [(0.3, 0.5)]) == (0.1, 0.2, 0.3, 0.39, 0.5, 1.0, 5.0)
    assert bounds(USUAL, [], [(1.0, inf)]) == (*USUAL[:4], 1.3, 1.7, 2.2, 2.9, 3.8, 5.0)


@given(st.floats(0.001, 10), st.floats(1.1, 1000))
def test_every_end_of_a_range_is_a_bound_and_bounds_only_grow(least_s: float, times: float) -> None:
    """Whatever the range is: no usual bound is lost, and all are in order."""
    found = bounds(USUAL, [], [(least_s, least_s * times)])
    assert {*USUAL, least_s} <= {*found}
    assert all(low_s < high_s for low_s, high_s in pairwise(found))


@pytest.mark.parametrize("kind", ["first token", "inter-token"])
def test_the_bundled_presets_have_a_fine_grid_wherever_their_objectives_may_lie(kind: str) -> None:
    """A quantile is compared with an objective within a third of it, on a fast engine and on a slow one."""
    catalogue = PresetCatalogue()
    usual, fixed, ranges = (
        (_LONG_S, catalogue.times_s(), catalogue.ranges_s())
        if kind == "first token"
        else (_INTER_TOKEN_S, catalogue.inter_token_times_s(), catalogue.inter_token_ranges_s())
    )
    found, bounded = bounds(usual, fixed, ranges), [one for one in ranges if one[0] > 0 and one[1] < inf]
    assert bounded
    for low_s, high_s in pairwise(found):
        if any(least_s <= low_s and high_s <= most_s for least_s, most_s in bounded):
            assert high_s <= 1.37 * low_s, (low_s, high_s)  # a bound has two digits
    assert len(found) <= 80
