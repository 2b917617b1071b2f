"""The stuck watch beside saturated engines in virtual time: no engine that serves is ever said to be stuck."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import mean

import pytest
from engine_family import FAMILY, drawn, objectives
from tiers import LONG

from headway_policies import Recovery, bundled_presets
from headway_policies.engine import StuckWatch
from headway_simulator import EngineModel, Variation, Workload
from headway_simulator.engine_model.engine import Engine, Steps
from headway_simulator.run.bare import Bare
from headway_simulator.run.shell import Shell
from headway_simulator.run.warm import warm_desk
from headway_simulator.traffic.clients import Clients
from headway_simulator.traffic.lengths import bimodal, lognormal
from headway_simulator.traffic.workload import Phase

HOUR_S, MOST_REQUESTS = 3600.0, 20_000 if LONG else 400
LOADS = (0.9, 1.5, 3.0)
TERMS = Recovery()
#: Long prompts among short ones; clients that give up, cancel and ask again.
LONG_TOKENS = 6000
MIX = Workload("", "", (Phase(bimodal(64, LONG_TOKENS, 0.05), lognormal(64, 1.0)),))
CLIENTS = Clients(patience_s=60.0, cancel_ratio=0.1, retries=1)
PRESETS = ("balanced", "throughput", "interactive", "latency", "offline")


def roomy(model: EngineModel) -> EngineModel:
    """The same with a KV cache that holds one long request, if nothing else."""
    return replace(model, kv_tokens=max(model.kv_tokens, 2 * LONG_TOKENS))


DRAWN = {str(seed): roomy(drawn(seed)) for seed in range(10 if LONG else 2)}
#: A long prompt takes 47 steps of it, and fifteen seconds while nothing else runs.
SMALL_STEPS = replace(FAMILY["slow CPU"], step_tokens=128, max_num_seqs=32)
MODELS = {"small steps": SMALL_STEPS, "A100, 8B": FAMILY["A100, 8B"]} | DRAWN


class WatchedShell(Shell):
    """A run whose steps a watch is told as vLLM tells them: a prompt counts when it is computed to its end, and the KV
    cache holds what is computed of it."""

    def __init__(self, front: object, model: EngineModel, seed: int) -> None:
        super().__init__(front, Engine(model), CLIENTS, Random(seed), False)  # type: ignore[arg-type]  # a desk or none
        self.watch = StuckWatch()
        self.stuck_s = self.unserved_s = 0.0

    def _step(self, steps: Steps) -> None:
        engine, decoded = self._engine, steps.decoding
        super()._step(steps)
        size = engine.model.block_tokens
        begun = any(one.decoding and one.began_step == engine._step for one in engine.running)
        uncomputed = sum(one.prefill_left // size for one in engine._prefilling)
        self.watch.stepped(
            self._now_s,
            served=bool(decoded or begun or steps.ended),
            running=len(engine.running),
            waiting=engine.waiting,
            deferred=0,
            kv_usage_ratio=engine.kv_usage_ratio - uncomputed / engine.blocks,
        )
        self.unserved_s = max(self.unserved_s, self.watch._worst._unserved_s)
        self.stuck_s = max(self.stuck_s, self.watch.stuck_s(self._now_s, TERMS))


def varied(model: EngineModel, span_s: float) -> EngineModel:
    """The same with slow spells, a pause of ten seconds every while, a neighbour and jitter."""
    pauses = tuple((10.0, span_s * part / 6) for part in range(1, 6))
    slow = tuple((6.0, span_s * part / 5, span_s * part / 5 + 40.0) for part in range(1, 5))
    return replace(model, variation=Variation(slow, pauses, neighbour=(2.0, 5.0, 20.0), jitter_ratio=0.3))


@pytest.mark.slow
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("name", MODELS)
def test_no_saturated_engine_is_called_stuck(name: str, load: float) -> None:
    """In an hour, or in the first requests of it, with long prompts, slow spells, pauses of 10 s and switches; neither
    behind a preset nor alone, with a queue of its own that grows without bound."""
    model = MODELS[name]
    slo = objectives(model)
    span_s = min(HOUR_S, MOST_REQUESTS / mean(MIX.rates_per_s(model, slo, load)))
    requests = MIX.requests(span_s, 1, model=model, slo=slo, load=load)
    presets = bundled_presets()
    switches = [(span_s * place / len(PRESETS), presets[name]) for place, name in enumerate(PRESETS) if place]
    for front, moves in ((warm_desk(presets[PRESETS[0]], model), switches), (Bare(), [])):
        shell = WatchedShell(front, varied(model, span_s), 1)
        shell.run(requests, moves, None)
        assert shell.stuck_s == 0.0, f"{name} at {load}: {shell.stuck_s:.1f} s"
