"""The step policy on engines drawn at random, with long prompts among chat: beside the same engine alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from random import Random
from statistics import mean

import pytest
from engine_family import FAMILY, drawn, objectives
from tiers import LONG

from headway_policies.step import StepPolicy, StepTerms
from headway_simulator import EngineModel, Workload
from headway_simulator.engine_model.capacity import ceiling
from headway_simulator.engine_model.engine import Engine
from headway_simulator.run.bare import Bare
from headway_simulator.run.shell import Shell
from headway_simulator.traffic.clients import Clients
from headway_simulator.traffic.lengths import bimodal, lognormal
from headway_simulator.traffic.workload import Phase

ENGINES, FEW, REQUESTS = 60 if LONG else 4, 6, 500
SEEDS = range(1, 4)
#: Of the requests of a run some keep their objectives by chance; over all runs of an engine the scatter is as large.
WORSE, SCATTER, MOST = 0.02, 0.02, 0.7
MIXES = {
    f"{ratio:g} of {tokens}": Workload("", "", (Phase(bimodal(64, tokens, ratio), lognormal(64, 1.0)),))
    for ratio, tokens in ((0.02, 2048), (0.1, 1024))
}


def engines() -> Iterator[tuple[int | str, EngineModel]]:
    """The usual ones, and others that can serve several sequences within their objectives."""
    yield from FAMILY.items()
    for seed in count():
        model = drawn(seed)
        if ceiling(model, 104, 64, objectives(model)).seats >= FEW:
            yield seed, model


def kept(model: EngineModel, mix: str, load: float, seed: int, *, shaped: bool) -> float:
    """The share of the requests that keep their objectives, on an engine without anything in front of it."""
    slo, workload = objectives(model), MIXES[mix]
    terms = StepTerms("auto", 1000 * slo.inter_token_s, {-3: slo.ttft_s, -2: slo.ttft_s})
    span_s = REQUESTS / mean(workload.rates_per_s(model, slo, load))
    requests = workload.requests(span_s, seed, model=model, slo=slo, load=load)
    engine = Engine(model, StepPolicy(terms) if shaped else None)
    visits = Shell(Bare(), engine, Clients(), Random(seed), False).run(requests, (), None).visits
    return mean(one.within(slo.ttft_s, slo.inter_token_s) for one in visits)


#: In the short form each engine has one of the two mixes.
CELLS = [
    (place, mix)
    for place in range(len(FAMILY) + ENGINES)
    for at, mix in enumerate(MIXES)
    if LONG or at == place % len(MIXES)
]


@pytest.mark.slow
@pytest.mark.parametrize(("place", "mix"), CELLS)
def test_no_engine_keeps_less_than_with_its_own_steps(place: int, mix: str) -> None:
    """Below the ceiling, where the engine alone keeps those of most requests. In an overload with no limit in front
    both fail most, and nothing is promised.
    """
    name, model = next(islice(engines(), place, None))
    for load in (0.4, 0.7):
        own = mean(kept(model, mix, load, seed, shaped=False) for seed in SEEDS)
        if own < MOST:
            continue
        shaped = mean(kept(model, mix, load, seed, shaped=True) for seed in SEEDS)
        assert shaped >= (1 - WORSE) * own - SCATTER, f"{name} at {load}: {shaped:.3f} of {own:.3f}"
