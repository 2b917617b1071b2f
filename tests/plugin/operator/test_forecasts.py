"""A forecast's model of the engine: as unsteady as its engine was, measured on virtual time through the gate."""

from __future__ import annotations

import asyncio
from functools import cache
from random import Random

import pytest
from engines import ServingEngine, installed
from tiers import LONG
from virtual_time import new_loop

from headway.api.schema import PresetForecast
from headway.forecast import Job
from headway.forecast.figures import merged
from headway.forecast.replay import drawn, recorded, replay
from headway.operator.forecasts import SEEDS
from headway_policies import Load, Ticket, Usage, bundled_presets
from headway_simulator import WORKLOADS, EngineModel, Slo, Variation

MODEL, SPAN_S = EngineModel(), 400.0 if LONG else 320.0
BALANCED = bundled_presets()["balanced"]
UNSTEADY = Variation(jitter_ratio=0.3, jitter_hold_s=15.0, seed=3)


@cache
def watched(variation: Variation | None) -> tuple[Job, Job]:
    """What is to be replayed after some minutes of chat on an engine with these disturbances: of all, of the end."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(_watched(variation))


async def _watched(variation: Variation | None) -> tuple[Job, Job]:
    control, parts = installed(ServingEngine(), BALANCED)
    requests = WORKLOADS["W1"].requests(SPAN_S, 1, model=MODEL, slo=Slo(), load=0.7)
    loop, random, step, number = asyncio.get_running_loop(), Random(2), 0, 0
    began_s = loop.time()
    while (now_s := loop.time() - began_s) < SPAN_S:
        while number < len(requests) and requests[number].at_s <= now_s:
            one = requests[number]
            ticket = Ticket(number, one.class_name, began_s + one.at_s, prompt_tokens=one.prompt_tokens)
            parts.recorder.arrived(ticket)
            parts.recorder.completed(ticket, Usage(one.prompt_tokens, one.output_tokens))
            number += 1
        running, prefill_tokens = random.randint(5, 25), random.choice([0, 0, 64])
        factor = 1.0 if variation is None else variation.pace(now_s, step).factor
        step_s, step = factor * MODEL.step_s(running, prefill_tokens), step + 1
        await asyncio.sleep(step_s)
        parts.activity.step(Load(running, 0, 0.1, step_s, prefill_tokens=prefill_tokens), running, [])
    return control.forecasts.job([BALANCED], None), control.forecasts.job([BALANCED], SPAN_S / 2)


def forecast(job: Job) -> PresetForecast:
    """As the process of a forecast computes it."""
    trace = recorded(job.recording)
    span_s, (preset,) = job.recording.span_s, job.presets
    return merged(preset.name, [replay(drawn(trace, seed), span_s, preset, job.model, seed) for seed in range(SEEDS)])


def widths(found: PresetForecast) -> dict[str, float]:
    """How wide the intervals are, relative to their values."""
    intervals = {
        "mean batch": found.mean_batch,
        "first token p50": found.all.ttft_s.p50,
        "between tokens p50": found.all.inter_token_s.p50,
        "between tokens p95": found.all.inter_token_s.p95,
    }
    return {name: (one.high - one.low) / one.value for name, one in intervals.items() if one is not None}


def test_an_unsteady_engine_has_wider_intervals_than_a_steady_one() -> None:
    """The same traffic, forecast from what was measured of two engines that differ in their steadiness alone."""
    steady = widths(forecast(watched(None)[0]))
    unsteady = widths(forecast(watched(UNSTEADY)[0]))
    assert steady.keys() == unsteady.keys()
    assert all(unsteady[name] > 2 * steady[name] for name in steady), (steady, unsteady)


def test_the_model_carries_the_unsteadiness_of_its_engine() -> None:
    """How far it strays and for how long at a time; the time between two draws also bounds the cost of a replay."""
    varied = watched(UNSTEADY)[0].model.variation
    assert varied is not None
    assert varied.jitter_ratio == pytest.approx(0.3, rel=0.4)
    assert 5.0 < varied.jitter_hold_s < 35.0
    steady = watched(None)[0].model.variation
    assert steady is None or steady.jitter_ratio < 0.02


def test_only_the_time_of_the_replayed_traffic_counts() -> None:
    """A slow spell before it is not in the model."""
    long, short = (job.model.variation for job in watched(Variation(slow=((3.0, 50.0, 110.0),))))
    assert long is not None
    assert long.jitter_ratio > 0.2
    assert short is None or short.jitter_ratio < 0.02
