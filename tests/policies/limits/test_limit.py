"""The contract of every limit, and the accepted settings of ``[limit]`` in a preset."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from small_presets import small_preset

from headway_policies import Desk, FixedLimit, Limit, Load, Signals
from headway_policies.limits.governor import make_limit
from headway_policies.limits.limit import LimitSettings


def governed(policy: str, **settings: bool) -> Callable[[int], Limit]:
    return lambda seats: make_limit(LimitSettings.model_validate({"policy": policy, **settings}), seats, None)


#: Every limit there is, made for a number of seats.
LIMITS: dict[str, Callable[[int], Limit]] = {
    "fixed": FixedLimit,
    "memory": governed("fixed", memory_aware=True),
    "aimd": governed("aimd"),
    "sla": governed("sla"),
    "model": governed("model"),
    "model and memory": governed("model", memory_aware=True),
    "shadow": governed("model", shadow=True),
}

every_limit = pytest.mark.parametrize("make", LIMITS.values(), ids=LIMITS)
loads = st.builds(
    Load,
    running=st.integers(0, 10_000),
    waiting=st.integers(0, 10_000),
    kv_usage_ratio=st.floats(0, 1),
    inter_token_s=st.none() | st.floats(0, 1e4),
    prefill_tokens=st.integers(0, 1 << 20),
    preemptions=st.integers(0, 100),
    kv_capacity_tokens=st.none() | st.integers(1, 1 << 30),
)
histories = st.lists(st.tuples(loads, st.integers(0, 10_000), st.booleans(), st.floats(0, 1000)), max_size=20)


@every_limit
@given(seats=st.integers(1, 65_536), history=histories)
def test_a_limit_is_a_whole_number_of_at_least_one(
    make: Callable[[int], Limit], seats: int, history: list[tuple[Load, int, bool, float]]
) -> None:
    """Whatever the engine reports, a request may always be served."""
    limit, now_s = make(seats), 0.0
    for load, taken, limited, pause_s in history:
        now_s += pause_s
        limit.observe(Signals(load, taken, 5, limited), now_s)
        for later_s in (0.0, 100.0):
            assert type(limit.seats(now_s + later_s)) is int
            assert limit.seats(now_s + later_s) >= 1
            assert limit.proposed(now_s + later_s) >= 1


@given(seats=st.integers(1, 65_536), seen=st.lists(loads, max_size=20))
def test_a_fixed_limit_never_moves(seats: int, seen: list[Load]) -> None:
    """A fixed limit is the preset's number, before and after any load."""
    limit = FixedLimit(seats)
    for number, load in enumerate(seen):
        limit.observe(Signals(load, seats, 5, limited=True), float(number))
    assert (limit.seats(99.0), limit.proposed(99.0), limit.why) == (seats, seats, "fixed")


@pytest.mark.parametrize(("seats", "ceiling", "allowed"), [(8, None, 8), (8, 4, 4), (8, 64, 8), (8, 0, 1)])
def test_the_live_limit_never_passes_what_the_engine_can_give(seats: int, ceiling: int | None, allowed: int) -> None:
    """The desk's limit is the policy's number, cut at the ceiling and never below one."""
    assert Desk(small_preset(seats), ceiling=ceiling).limit == allowed


@pytest.mark.parametrize("policy", ["fixed", "aimd", "sla", "model", "limits:Mine", "my_package.limits:Mine2"])
def test_a_policy_is_built_in_or_an_import_path(policy: str) -> None:
    """The four names, and ``package.module:Class``, are accepted."""
    assert LimitSettings(policy=policy).policy == policy


@pytest.mark.parametrize(
    "wrong",
    [
        {"policy": "vegas"},
        {"policy": "module:"},
        {"inter_token_slo_ms": 0},
        {"set_point_ratio": 1.1},
        {"min_seats": 0},
        {"most": 0},
        {"kv_reserve_ratio": 1},
        {"stale_after_s": 0},
        {"step": 2},
    ],
    ids=str,
)
def test_what_makes_no_limit_is_refused(wrong: dict[str, object]) -> None:
    """Unknown names and values out of range are errors when the preset is read."""
    with pytest.raises(ValidationError):
        LimitSettings.model_validate(wrong)
