"""G17: requests of LoRA adapters on engines that run fewer different ones at once than are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from random import Random
from statistics import mean

from engine_family import FAMILY, objectives
from goal import Goal
from serving.arms import without_bounds

from headway_policies import Preset
from headway_policies.batching import Batching
from headway_simulator import WORKLOADS, Clients, EngineModel, Request, Visit, Workload, simulate, spread
from headway_simulator.engine_model.engine import Engine
from headway_simulator.run.shell import Shell
from headway_simulator.run.warm import warm_desk

SEEDS, REQUESTS, SEATS = (1, 2), 1500, 32
#: So few run at once that an adapter is often without a request, and its place free.
_SLOW = ("slow CPU", "two cores")
_FLOOD = replace(WORKLOADS["W9"], adapters={"flood": 10.0, "other": 1.0, "": 2.0}, most_adapters=1)
_MANY = replace(
    WORKLOADS["W9"], adapters={"": 2.0} | {f"adapter-{place}": 4.0 / place for place in range(1, 33)}, most_adapters=4
)


def adapters() -> Iterator[Goal]:
    """G17: adapters that the engine cannot all run at once, at 0.5 of the ceiling, on every engine of the family."""
    preset = without_bounds(Batching(seats=SEATS, window_ms=0))
    for words, workload in (("a flood of one adapter, another, one place", _FLOOD), ("32 adapters, 4 places", _MANY)):
        for name, model in FAMILY.items():
            known, unknown = _waits(preset, workload, model)
            figure, most = f"{name}, {words}: TTFT p99, adapters known : not known", 1.1 if name in _SLOW else 0.5
            yield Goal("G17", figure, most, mean(known) / mean(unknown), most=True, note=f"{mean(known):.3g} s")


def _waits(preset: Preset, workload: Workload, model: EngineModel) -> tuple[list[float], list[float]]:
    """The p99 of each seed, in seconds: where the desk knows the adapters of the requests, and where it does not."""
    model = replace(model, order="priority", most_adapters=workload.most_adapters)
    slo, known, unknown = objectives(model), list[float](), list[float]()
    for seed in SEEDS:
        per_s = workload.rates_per_s(model, slo, 0.5)[0]
        requests = workload.requests(REQUESTS / per_s, seed, model=model, slo=slo, load=0.5)
        known.append(_p99_s(simulate(requests, preset, model).visits))
        unknown.append(_p99_s(_unknown(requests, preset, model)))
    return known, unknown


def _unknown(requests: Iterable[Request], preset: Preset, model: EngineModel) -> list[Visit]:
    """The same engine behind a desk that knows nothing of its bound."""
    desk = warm_desk(preset, replace(model, most_adapters=None))
    return Shell(desk, Engine(model), Clients(), Random(0), one_by_one=False).run(requests, (), None).visits


def _p99_s(visits: list[Visit]) -> float:
    p99_s = spread(visit.ttft_s for visit in visits).p99_s
    assert p99_s is not None
    return p99_s
