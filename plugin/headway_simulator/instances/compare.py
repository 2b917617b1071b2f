"""The comparison of routers: each serves the same requests, on a fleet of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headway_policies import Preset
from headway_simulator.engine_model.capacity import Slo, ceiling
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.instances.run import RouterName, simulate_instances
from headway_simulator.report.class_slo import stated_by
from headway_simulator.report.report import Comparison, Run
from headway_simulator.report.summary import summarise
from headway_simulator.traffic.clients import Clients
from headway_simulator.traffic.traffic import Traffic


def capacity_of(models: Sequence[EngineModel]) -> float:
    """The capacity of these engines in that of the first one."""
    return sum(models[0].step_s(1, 1) / one.step_s(1, 1) for one in models)


def seats_for(traffic: Traffic, model: EngineModel, slo: Slo) -> int:
    """The most seats of one instance that keep the time between tokens, for the mean lengths of the traffic."""
    number = max(len(traffic.requests), 1)
    prompt_tokens = sum(one.prompt_tokens for one in traffic.requests) / number
    output_tokens = sum(one.output_tokens for one in traffic.requests) / number
    return ceiling(model, prompt_tokens, max(output_tokens, 1.0), slo).seats


def compare_routers(
    routers: Sequence[RouterName],
    preset: Preset,
    models: Sequence[EngineModel],
    traffic: Traffic,
    slo: Slo,
    *,
    seed: int,
    clients: Clients | None = None,
    progress: Callable[[str, float], None] | None = None,
    by_own: bool = True,
) -> Comparison:
    """Run every router with the seats of ``seats_for`` for each instance. Objectives as in ``compare``.

    ``progress`` is called with the name of a router and the share of its requests that have arrived. Raises PresetError
    where the preset contradicts the seats.
    """
    seats, number = seats_for(traffic, models[0], slo), max(len(traffic.requests), 1)
    runs = []
    for router in routers:

        def come(arrived: int, name: str = router) -> None:
            if progress is not None:
                progress(name, min(arrived / number, 1.0))

        result = simulate_instances(
            traffic.requests, preset, models, seats, router=router, clients=clients, seed=seed, progress=come
        )
        own = stated_by(preset, models[0], traffic.requests) if by_own else {}
        summary = summarise(router, result, slo, warmup_s=traffic.warmup_s, span_s=traffic.span_s, own=own)
        runs.append(Run(router, result, summary))
    return Comparison(
        workload=f"{traffic.words}; {preset.name} on {_described(models, seats)}",
        seed=seed,
        model=models[0],
        slo=slo,
        runs=runs,
        ceiling_per_s=traffic.ceiling_per_s,
        arrivals=len(traffic.requests),
        warmup_s=traffic.warmup_s,
    )


def _described(models: Sequence[EngineModel], seats: int) -> str:
    slower = models[-1].base_s / models[0].base_s
    slow = "" if slower == 1 else f", the last of them {slower:.15g} times as slow"
    return f"{len(models)} instances of {seats} seats{slow}"
