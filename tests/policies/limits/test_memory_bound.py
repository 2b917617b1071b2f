"""The memory bound: the number of sequences it admits."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st
from intervals import interval

from headway_policies.limits.limit import Interval
from headway_policies.limits.memory_bound import MemoryBound


def bound(running: float, usage_ratio: float, capacity_tokens: int | None, std: float = 0.0) -> int | None:
    seen = interval(running, kv_usage_ratio=usage_ratio, kv_capacity_tokens=capacity_tokens, sequence_tokens_std=std)
    return seats_of(MemoryBound(), seen)


def seats_of(policy: MemoryBound, seen: Interval) -> int | None:
    policy.observe(seen)
    return policy.seats(seen, 0.95)


@pytest.mark.parametrize(("running", "usage_ratio", "seats"), [(10, 0.5, 19), (40, 0.95, 40), (40, 1.0, 38), (1, 1, 0)])
def test_alike_sequences_fill_all_but_the_reserve(running: float, usage_ratio: float, seats: int) -> None:
    """Without spread: the usable share of the cache over the share that one holds."""
    assert bound(running, usage_ratio, None) == pytest.approx(seats, abs=1)


def test_unequal_sequences_get_room_for_their_spread() -> None:
    """The chance that so many overflow the usable cache is the normal one of a standard deviation, not more."""
    capacity_tokens, held_tokens, std = 10_000, 100, 120.0
    seats = bound(20, 20 * held_tokens / capacity_tokens, capacity_tokens, std)
    assert seats is not None
    footprint = NormalDist(seats * held_tokens, std * sqrt(seats))
    one_more = NormalDist((seats + 1) * held_tokens, std * sqrt(seats + 1))
    tail = NormalDist().cdf(-1)
    assert 1 - footprint.cdf(0.95 * capacity_tokens) <= tail < 1 - one_more.cdf(0.95 * capacity_tokens)


def test_nothing_ran_nothing_is_bounded() -> None:
    """Before anything has run there is no bound."""
    assert bound(0, 0.0, 1000) is None


def test_one_strange_interval_moves_it_little() -> None:
    """The size of a sequence is smoothed: one interval of tiny ones does not open the gates."""
    policy = MemoryBound()
    seats = [seats_of(policy, interval(10, kv_usage_ratio=usage)) for usage in (0.5, 0.05)]
    assert seats[0] is not None
    assert seats[1] is not None
    assert seats[1] <= 1.3 * seats[0]


@given(
    st.just(0.0) | st.floats(0.01, 1e5),
    st.floats(0, 1),
    st.none() | st.integers(1, 1 << 30),
    st.floats(0, 1e6),
)
def test_it_never_raises(running: float, usage_ratio: float, capacity_tokens: int | None, std: float) -> None:
    """Any engine's numbers give a bound of 0 or more, or none."""
    seats = bound(running, usage_ratio, capacity_tokens, std)
    assert seats is None or seats >= 0
