"""The fit of the engine's step time: learnt under every limit, and where the next limit starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random

import pytest
from small_presets import small_preset

from headway_policies import Desk, Preset, Ticket, parse_preset
from headway_policies.desk.capacity import Capacity
from headway_policies.limits import EngineFit, Interval, LimitSettings, Load
from headway_policies.limits.fit.step_time import StepTime
from headway_policies.prediction import SizeStats

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
            capacity.lacked()
            capacity.observe(load, number, 9, SizeStats(), 0.0, now_s)
    return capacity


def interval(running: float, prefill_tokens: float, step_s: float) -> Interval:
    """An interval without preemptions."""
    return Interval(
        running=running, seats_taken=running, prefill_tokens=prefill_tokens, kv_usage_ratio=0.1, inter_token_s=step_s,
        preemptions=0, limited=True, queued=9,
    )  # fmt: skip


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


def test_the_knee_is_where_tokens_cost_twice_as_much_time() -> None:
    """At the knee, by differences of the fitted curve: 1 % more tokens a second for 2 % more time between tokens."""
    engine = EngineFit()
    for running in (4.0, 8.0, 16.0, 32.0) * 10:
        engine.learn(interval(running, 0.0, CPU.step_s(running, 0)))
    knee = engine.knee_seats()
    assert knee is not None

    def grows(figure: Callable[[float], float]) -> float:
        return figure(1.001 * knee) / figure(knee) - 1

    costs = engine.costs
    time = grows(lambda seats: costs.step_s(seats, 0))
    assert time == pytest.approx(2 * grows(lambda seats: seats / costs.step_s(seats, 0)), rel=0.01)
    assert EngineFit().knee_seats() is None
    restarted = EngineFit()
    restarted.recall(engine.learnt())
    assert restarted.knee_seats() == pytest.approx(knee)


def test_a_pause_of_the_machine_is_not_learnt_and_a_slow_engine_is() -> None:
    """One interval of five times the time is dropped, two as well; from the third on the costs follow."""
    engine = EngineFit()
    for running in (4.0, 8.0, 16.0, 32.0) * 10:
        engine.learn(interval(running, 0.0, CPU.step_s(running, 0)))
    before = engine.costs.step_s(16, 0)
    for _ in range(2):
        engine.learn(interval(16.0, 0.0, 5 * CPU.step_s(16, 0)))
    assert engine.costs.step_s(16, 0) == before
    for _ in range(30):
        engine.learn(interval(16.0, 0.0, 5 * CPU.step_s(16, 0)))
    assert engine.costs.step_s(16, 0) == pytest.approx(5 * before, rel=0.1)


def test_the_error_is_that_of_predictions_made_before_the_measurement() -> None:
    """A steady engine has none after a while; one that jumps by a tenth each time has about a tenth."""
    steady, jumping = EngineFit(), EngineFit()
    assert steady.error_ratio is None
    for place in range(200):
        steady.learn(interval(8.0 + place % 5, 0.0, CPU.step_s(8 + place % 5, 0)))
        jumping.learn(interval(8.0, 0.0, CPU.step_s(8, 0) * (0.9 if place % 2 else 1.1)))
    assert steady.error_ratio == pytest.approx(0.0, abs=0.01)
    assert jumping.error_ratio == pytest.approx(0.15, abs=0.06)


def test_what_a_prompt_costs_is_found_from_single_steps() -> None:
    """A prompt in each sixteenth step, four sequences: the means of intervals hardly vary, the steps do."""
    fit = EngineFit()
    for number in range(200):
        prompts = 64 if number % 16 == 0 else 0
        fit.step(Load(4 + number % 3, 0, 0.1, CPU.step_s(4 + number % 3, prompts), prefill_tokens=prompts))
    found = fit.step_costs
    assert found.prefill_token_s == pytest.approx(CPU.prefill_token_s, rel=0.05)
    assert found.step_s(6, 0) == pytest.approx(CPU.step_s(6, 0), rel=0.02)


def test_a_pause_is_no_step() -> None:
    """Nor is one that says nothing of the speed; but an engine that stays slow is followed."""
    fit = EngineFit()
    for _ in range(128):
        fit.step(Load(4, 0, 0.1, 0.03))
    for load in (
        Load(4, 0, 0.1, 30.0),
        Load(4, 0, 0.1, None),
        Load(0, 0, 0.1, 0.3),
        Load(4, 0, 0.1, 0.3, preemptions=1),
    ):
        fit.step(load)
    for _ in range(60):
        fit.step(Load(4, 0, 0.1, 0.03))
    assert fit.step_costs.step_s(4, 0) == pytest.approx(0.03, rel=0.02)
    for _ in range(4000):
        fit.step(Load(4, 0, 0.1, 0.3))
    assert fit.step_costs.step_s(4, 0) > 0.25


def test_equal_steps_that_are_reported_together_count_as_so_many() -> None:
    """Eight in one report: the fit follows the engine as it does from eight reports of a step."""
    single, together = EngineFit(), EngineFit()
    for number in range(40):
        load = Load(4 + number % 5, 0, 0.1, inter_token_s=(2 if number > 20 else 1) * CPU.step_s(4 + number % 5, 0))
        together.step(replace(load, steps=8))
        for _ in range(8):
            single.step(load)
    assert together.step_costs == single.step_costs
    assert together.step_costs.step_s(8, 0) == pytest.approx(2 * CPU.step_s(8, 0), rel=0.01)


def test_while_few_steps_were_seen_the_intervals_count() -> None:
    """A dozen steps prove nothing."""
    fit = EngineFit()
    for _ in range(12):
        fit.step(Load(4, 0, 0.1, 0.03))
    assert fit.step_costs == fit.costs


@pytest.mark.parametrize("seed", [0, 4])
def test_an_engine_full_of_prompts_leaves_a_pace_above_0(seed: int) -> None:
    """Each step computes prompts, so that the time of a token alone cannot be told; an objective in its multiples is
    kept all the same, and plain steps afterwards correct it.
    """
    random, now_s = Random(seed), 0.0
    classes = "default_class = 'n'\n[classes.n]\npriority = 1\nmax_waiting = 9\ninter_token_slo_ms = '10x'\n"
    queue = "[queue]\nmax_waiting = 9\n[batching]\nseats = 32\nwindow_ms = 0\n[limit]\npolicy = 'model'\n"
    preset = parse_preset(f"name = 'a'\n{classes}{queue}", "p")
    desk = Desk(preset)
    desk.arrive(Ticket(1, "n", 0.0, prompt_tokens=8000, max_tokens=64), 0.0)
    for number in range(1200):
        running = random.randint(2, 8)
        tokens = random.choice([2048, 4096, 8192]) if number < 600 else 0
        step_s = (0.008 + 5e-5 * running + 8e-5 * tokens) * (1 + random.uniform(-0.3, 0.3))
        now_s += step_s
        load = Load(running, 0, 0.1, inter_token_s=step_s, prefill_tokens=tokens, first_tokens=int(tokens > 0))
        desk.observe(load, now_s)
        assert desk.engine_fit.unloaded is None or desk.engine_fit.unloaded.token_s > 0
    assert desk.engine_fit.unloaded is not None
    assert desk.engine_fit.unloaded.token_s == pytest.approx(0.008, rel=0.5)


def test_costs_of_an_earlier_process_that_leave_a_token_no_time_are_not_recalled() -> None:
    """What starts at 0 would learn nothing."""
    fit = EngineFit()
    learnt = {"base_s": 0.0, "sequence_s": 0.0, "prefill_token_s": 1e-4, "prefill_tokens_per_sequence": 3.0}
    fit.recall(learnt)
    assert (fit.unloaded, fit.learnt()) == (None, {})
    fit.recall(learnt | {"base_s": 0.01})
    assert fit.unloaded is not None
    assert fit.unloaded.token_s == pytest.approx(0.01)
