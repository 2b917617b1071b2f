"""How unsteady an engine was, against the disturbances of a simulated one."""

from __future__ import annotations

from random import Random

import pytest

from headway.recorder.speed import BLOCK, STRETCH_S, SpeedLog, Unsteadiness
from headway_policies import Load
from headway_policies.limits import StepTime
from headway_simulator import EngineModel, Variation

MODEL = EngineModel()
COSTS = StepTime(MODEL.base_s, MODEL.seat_s, MODEL.prefill_s)


def measured(log: SpeedLog, variation: Variation | None, until_s: float, now_s: float = 0.0) -> float:
    """Record the steps of an engine with changing work up to this time; the time of the last one."""
    random, step = Random(1), 0
    while now_s < until_s:
        running, prefill_tokens = random.randint(1, 40), random.choice([0, 0, 0, 64])
        factor = 1.0 if variation is None else variation.pace(now_s, step).factor
        step_s = factor * MODEL.step_s(running, prefill_tokens)
        now_s, step = now_s + step_s, step + 1
        log.stepped(Load(running, 0, 0.1, step_s, prefill_tokens=prefill_tokens), now_s)
    return now_s


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_a_steady_engine_strays_by_nothing(scale: float) -> None:
    """Whatever it computes; a step time that is wrong by a factor makes no engine unsteady."""
    log = SpeedLog()
    measured(log, None, 300.0)
    costs = StepTime(scale * COSTS.base_s, scale * COSTS.sequence_s, scale * COSTS.prefill_token_s)
    assert log.unsteadiness(costs, 0.0).ratio == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(("ratio", "hold_s"), [(0.1, 4.0), (0.3, 10.0), (0.3, 24.0)])
def test_a_jitter_is_measured_as_it_is(ratio: float, hold_s: float) -> None:
    """How far the engine strays, and for how long at a time."""
    log = SpeedLog()
    measured(log, Variation(jitter_ratio=ratio, jitter_hold_s=hold_s, seed=5), 1750.0)
    found = log.unsteadiness(COSTS, 0.0)
    assert found.ratio == pytest.approx(ratio, rel=0.25)
    assert found.hold_s == pytest.approx(hold_s, rel=0.4)


def test_a_jitter_of_each_step_is_averaged_out() -> None:
    """The means of stretches stray less than steps, and each by itself."""
    log = SpeedLog()
    measured(log, Variation(jitter_ratio=0.3, seed=5), 1750.0)
    found = log.unsteadiness(COSTS, 0.0)
    assert 0.0 < found.ratio < 0.15
    assert found.hold_s < 2 * STRETCH_S


def test_an_engine_that_is_slow_for_minutes_is_held_for_a_whole_block() -> None:
    """A minute at a third of the speed in ten: nothing for the next interval, much for a forecast."""
    log = SpeedLog()
    measured(log, Variation(slow=((3.0, 250.0, 310.0),)), 600.0)
    found = log.unsteadiness(COSTS, 0.0)
    assert found.ratio > 0.25
    assert found.hold_s == pytest.approx(BLOCK * STRETCH_S, rel=0.25)


def test_only_what_was_since_a_time_counts() -> None:
    """A slow spell before it is forgotten, and so is all that is older than half an hour."""
    log = SpeedLog()
    now_s = measured(log, Variation(slow=((3.0, 100.0, 130.0),)), 600.0)
    assert log.unsteadiness(COSTS, 200.0).ratio == pytest.approx(0.0, abs=1e-6)
    assert log.unsteadiness(COSTS, 0.0).ratio > 0.1
    measured(log, None, 2000.0, now_s)
    assert log.unsteadiness(COSTS, 0.0).ratio == pytest.approx(0.0, abs=1e-6)


def test_too_little_is_not_judged() -> None:
    """No step, a few seconds of steps, and stretches with too few steps for a mean."""
    unknown = Unsteadiness(0.0, STRETCH_S)
    log = SpeedLog()
    assert log.unsteadiness(COSTS, 0.0) == unknown
    measured(log, Variation(jitter_ratio=0.5, jitter_hold_s=1.0), 10.0)
    assert log.unsteadiness(COSTS, 0.0) == unknown
    rare = SpeedLog()
    for place in range(500):
        rare.stepped(Load(1, 0, 0.1, 0.03 * (1 + place % 3)), float(place))
    assert rare.unsteadiness(COSTS, 0.0) == unknown
    assert log.unsteadiness(StepTime(0.0, 0.0, 0.0), 0.0) == unknown


def test_steps_that_say_nothing_of_the_speed_are_left_out() -> None:
    """Left out are steps without a time between tokens, with preemptions, or with nothing running."""
    log = SpeedLog()
    now_s = measured(log, None, 100.0)
    for place in range(1000):
        for load in (Load(5, 0, 0.1, None), Load(5, 0, 0.1, 9.0, preemptions=1), Load(0, 0, 0.1, 9.0)):
            log.stepped(load, now_s + place * 0.1)
    measured(log, None, now_s + 200.0, now_s + 100.0)
    assert log.unsteadiness(COSTS, 0.0).ratio == pytest.approx(0.0, abs=1e-6)
