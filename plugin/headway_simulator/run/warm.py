"""A desk as a server has it after its warm-up: what the engine takes for one request alone, and for a batch, is known.

The stages are those of ``headway_policies.engine.WarmupPlan``: single requests, then batches of all seats, at the
lengths of the preset. They meet the engine undisturbed, whatever its ``variation``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, islice

from headway_policies import Desk, Preset
from headway_policies.limits import Load, StepTimeFit
from headway_simulator.engine_model.engine import Engine, EngineModel, Sequence, Steps

_ROUNDS = 2


def warm_desk(preset: Preset, model: EngineModel) -> Desk:
    """A new desk in front of an engine that has been warmed up under its preset."""
    desk, fit, stepped = Desk(preset, model.max_num_seqs, model.most_adapters), StepTimeFit(), list[Load]()
    for number in (1, 1, 1, *[min(preset.batching.seats, model.max_num_seqs)] * _ROUNDS):
        for steps in _batch(preset, model, number):
            for _ in range(steps.count):
                fit.add(steps.running, steps.prefill_tokens, steps.step_s)
            if steps.decoding:
                stepped.append(Load(steps.running, 0, 0.0, steps.step_s, steps.prefill_tokens, steps=steps.count))
    costs = fit.solve()
    desk.engine_fit.recall(
        {
            "base_s": costs.base_s,
            "sequence_s": costs.sequence_s,
            "prefill_token_s": costs.prefill_token_s,
            "prefill_tokens_per_sequence": 0.0,
        }
    )
    for load in stepped:
        desk.engine_fit.step(load)
    return desk


def _batch(preset: Preset, model: EngineModel, number: int) -> Iterator[Steps]:
    """The steps of so many requests at once, without requests that do not fit into the cache."""
    engine, plan, now_s = Engine(replace(model, variation=None)), preset.warmup, 0.0
    for index, prompt_tokens in enumerate(islice(cycle(plan.prompt_tokens), number)):
        if engine.could_hold(prompt_tokens, plan.output_tokens):
            engine.submit(Sequence(index, prompt_tokens, plan.output_tokens, 0))
    engine.begin(now_s)
    while engine.ends_s < math.inf:
        now_s = engine.ends_s
        yield engine.finish(math.inf, 1)
        engine.begin(now_s)
