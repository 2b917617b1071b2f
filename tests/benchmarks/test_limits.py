"""Tests of the limits of ``make bench-policies``: a capacity is found on arms that cost nothing."""

from __future__ import annotations

import pytest
from limits import capacity


@pytest.mark.parametrize("at", [0.4, 0.7, 0.83, 1.1])
def test_a_capacity_is_where_nine_of_ten_keep_their_objectives(at: float) -> None:
    """To a hundredth of a load, where the share falls steeply beyond it."""
    assert capacity(lambda load: 1.0 if load < at else 1.0 - 2 * (load - at)) == pytest.approx(at + 0.05, abs=0.01)


@pytest.mark.parametrize(("share", "expected"), [(1.0, 1.2), (0.5, 0.4)], ids=["never", "at once"])
def test_a_capacity_beyond_the_loads_is_the_last_of_them(share: float, expected: float) -> None:
    """It says no more than was tried."""
    assert capacity(lambda load: share) == expected
