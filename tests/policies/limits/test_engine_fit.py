"""The fit of the engine's step time: learnt under every limit, and where the next limit starts."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from small_presets import small_preset

from headway_policies import Preset
from headway_policies.desk.capacity import Capacity
from headway_policies.limits import LimitSettings, Load, Signals
from headway_policies.limits.step_time import StepTime

CPU = StepTime(base_s=0.029, sequence_s=0.00106, prefill_token_s=0.0007)
#: Chat: a prompt token for each token of an answer.
BEST = (0.92 * 0.075 - CPU.base_s) / (CPU.sequence_s + CPU.prefill_token_s)


def adaptive(policy: str = "model", **more: object) -> Preset:
    return small_preset(16, limit=LimitSettings.model_validate({"policy": policy, "pace_prompts": False, **more}))


def fed(capacity: Capacity, running: Iterable[int], slowness: float = 1.0, now_s: float = 0.0) -> Capacity:
    """An interval of 20 steps at each of these numbers."""
    for number in running:
        step_s = slowness * CPU.step_s(number, number)
        for _ in range(20):
            now_s += step_s
            load = Load(number, 0, 0.1, inter_token_s=step_s, prefill_tokens=number)
            capacity.observe(Signals(load, seats_taken=number, queued=9, limited=True), now_s)
    return capacity


@pytest.mark.parametrize("before", [small_preset(8), adaptive("aimd"), adaptive("sla"), adaptive()])
def test_the_next_limit_starts_where_the_engine_keeps_its_set_point(before: Preset) -> None:
    """Whatever limit the engine ran under: the seats of the fluid optimum from the first moment."""
    capacity = fed(Capacity(before, None), [*range(4, 33, 4)] * 4)
    limit = capacity.limit_for(adaptive(inter_token_slo_ms=75, min_seats=2))
    assert limit.why == "recalled"
    assert limit.seats(0.0) == pytest.approx(BEST, abs=1)


def test_a_start_does_not_go_far_beyond_what_was_seen() -> None:
    """From at most 12 sequences the fit is an extrapolation: no more than half as many again."""
    capacity = fed(Capacity(small_preset(8), None), [*range(4, 13, 4)] * 4)
    limit = capacity.limit_for(small_preset(2, limit=LimitSettings(policy="model", inter_token_slo_ms=75)))
    assert limit.seats(0.0) == 18


@pytest.mark.parametrize("running", [[], [0]], ids=["no step", "an idle engine"])
def test_without_a_fit_the_presets_number_is_the_start(running: list[int]) -> None:
    """Nothing is guessed of an engine that has not worked yet."""
    limit = fed(Capacity(small_preset(8), None), running).limit_for(adaptive())
    assert (limit.why, limit.seats(0.0)) == ("start", 16)


def test_the_start_keeps_the_bounds_of_the_preset_and_of_the_engine() -> None:
    """Its lowest and highest number, and the most that the engine runs."""
    for own, bounds, seats in ((8, {"max_seats": 10}, 10), (48, {"min_seats": 40}, 40)):
        capacity = fed(Capacity(small_preset(8), None), [*range(4, 33, 4)] * 4)
        limit = LimitSettings.model_validate({"policy": "model", **bounds})
        assert capacity.limit_for(small_preset(own, limit=limit)).seats(0.0) == seats
    assert fed(Capacity(small_preset(8), 12), [*range(4, 33, 4)] * 4).limit_for(adaptive()).seats(0.0) == 12


def test_a_slower_engine_gets_fewer_seats() -> None:
    """Its speed is followed under a fixed limit as well."""
    capacity = fed(Capacity(small_preset(8), None), [*range(4, 33, 4)] * 4)
    fed(capacity, [16] * 12, slowness=1.5, now_s=1000.0)
    best = (0.92 * 0.075 / 1.5 - CPU.base_s) / (CPU.sequence_s + CPU.prefill_token_s)
    assert capacity.limit_for(adaptive()).seats(0.0) == pytest.approx(best, abs=2)
