"""What every limit promises."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_presets import small_preset

from headway_policies import Desk, FixedLimit, Limit, Load

#: Every limit there is, made for a number of seats.
LIMITS: dict[str, Callable[[int], Limit]] = {"fixed": FixedLimit}

every_limit = pytest.mark.parametrize("make", LIMITS.values(), ids=LIMITS)
loads = st.lists(
    st.builds(Load, st.integers(0, 10_000), st.integers(0, 10_000), st.floats(0, 1), st.integers(0, 1 << 20)),
    max_size=20,
)


@every_limit
@given(seats=st.integers(1, 65_536), seen=loads)
def test_a_limit_is_a_whole_number_of_at_least_one(make: Callable[[int], Limit], seats: int, seen: list[Load]) -> None:
    """Whatever the engine reports, somebody may always be served."""
    limit = make(seats)
    for number, load in enumerate(seen):
        limit.observe(load, float(number))
        assert isinstance(limit.seats(), int)
        assert limit.seats() >= 1


@given(seats=st.integers(1, 65_536), seen=loads)
def test_a_fixed_limit_never_moves(seats: int, seen: list[Load]) -> None:
    """A fixed limit is the preset's number, before and after any load."""
    limit = FixedLimit(seats)
    for load in seen:
        limit.observe(load, 0.0)
    assert limit.seats() == seats


@pytest.mark.parametrize(("seats", "ceiling", "allowed"), [(8, None, 8), (8, 4, 4), (8, 64, 8), (8, 0, 1)])
def test_the_live_limit_never_passes_what_the_engine_can_give(seats: int, ceiling: int | None, allowed: int) -> None:
    """The desk's limit is the policy's number, cut at the ceiling and never below one."""
    assert Desk(small_preset(seats), ceiling=ceiling).limit == allowed
