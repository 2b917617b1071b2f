"""The limit reads the queue and the GPU: no growth without a queue, none where the GPU is saturated."""

from __future__ import annotations

from dataclasses import replace

import pytest
from intervals import interval, signals

from headway_policies import Signals
from headway_policies.limits.governor import Governor, make_limit
from headway_policies.limits.limit import LimitSettings
from headway_policies.limits.saturation import Saturation

KNEE_SEATS = 16
FOR_S = 120.0


def step_s(seats: int) -> float:
    """An engine that is bound by memory up to 16 sequences, and by its compute beyond them."""
    return 0.02 * max(1.0, seats / KNEE_SEATS)


def grown(policy: str, *, busy: float | None, queued: int = 500) -> tuple[int, str]:
    """The limit and its reason after two minutes on that engine, its seats always taken; the objective is far away."""
    settings = LimitSettings(policy=policy, inter_token_slo_ms=400, max_seats=128)
    limit = make_limit(settings, 8, None)
    now_s = 0.0
    while now_s < FOR_S:
        seats = limit.seats(now_s)
        now_s += step_s(seats)
        load = signals(seats, step_s(seats)).load
        limit.observe(
            Signals(replace(load, gpu_busy_ratio=busy), seats, queued, limited=queued > 0),
            now_s,
        )
    return limit.seats(now_s), limit.why


@pytest.mark.parametrize("policy", ["aimd", "sla"])
def test_a_saturated_gpu_gets_no_more_seats(policy: str) -> None:
    """Beyond the knee all tokens come later and none more a second: the limit stays near it, though the SLO is far."""
    seats, why = grown(policy, busy=1.0)
    assert KNEE_SEATS <= seats <= 2 * KNEE_SEATS
    assert why == "saturated"


def test_a_limit_that_doubles_may_pass_the_knee_before_it_is_seen() -> None:
    """``model`` doubles between its intervals while requests wait: it ends where the objective or its bound does."""
    seats, why = grown("model", busy=1.0)
    assert KNEE_SEATS <= seats <= 128
    assert step_s(seats) <= 0.4
    assert why in ("saturated", "ceiling", "policy")


@pytest.mark.parametrize(("policy", "busy"), [("aimd", 0.8), ("aimd", None), ("sla", None), ("model", 0.8)])
def test_without_a_saturated_gpu_it_grows_on(policy: str, busy: float | None) -> None:
    """The control: the same engine without a reading, or with idle time, gets seats up to the objective."""
    assert grown(policy, busy=busy)[0] > 4 * KNEE_SEATS


@pytest.mark.parametrize(("queued", "allowed"), [(0, 20), (1, 20), (7, 23), (500, 33)])
def test_it_grows_by_what_waits(queued: int, allowed: int) -> None:
    """A proposal far above: one seat for each waiting request at the most, or a quarter of those there are."""

    class Far:
        def propose(self, seen: object, allowed: int) -> int:
            return 100

    limit = Governor(Far(), LimitSettings(policy="aimd"), 16, None)
    for number in range(10):
        limit.observe(replace(signals(16), queued=queued), number / 10)
    assert limit.seats(1.0) == allowed


def test_saturation_ends_with_idle_time_or_faster_tokens() -> None:
    """A GPU with idle time again, or tokens that come faster than at the knee: growth is tried again."""
    for relief in (interval(32, 0.04, gpu_busy_ratio=0.7), interval(32, 0.02, gpu_busy_ratio=1.0)):
        saturation = Saturation()
        saturation.update(interval(16, 0.02, gpu_busy_ratio=1.0))
        assert not saturation.saturated
        saturation.update(interval(32, 0.04, gpu_busy_ratio=1.0))
        assert saturation.saturated
        saturation.update(interval(32, 0.04, gpu_busy_ratio=1.0))
        assert saturation.saturated
        saturation.update(relief)
        assert not saturation.saturated
