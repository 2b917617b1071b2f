"""The comparison of presets: each serves the same requests in turn, on an engine of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headway_policies import Preset
from headway_policies.preset import seat_words
from headway_simulator.engine_model.capacity import Slo
from headway_simulator.report.class_slo import ClassSlo, stated_by
from headway_simulator.report.report import Comparison, Run
from headway_simulator.report.summary import summarise
from headway_simulator.run.shell import simulate
from headway_simulator.studies.strategies import Arm
from headway_simulator.traffic.clients import Clients
from headway_simulator.traffic.traffic import Traffic

#: Called with the name of an arm and the share of its requests that have arrived.
Progress = Callable[[str, float], None]


def compare(
    arms: Sequence[Arm],
    traffic: Traffic,
    slo: Slo,
    *,
    seed: int,
    clients: Clients | None = None,
    progress: Progress | None = None,
    judge: Preset | None = None,
) -> Comparison:
    """Run every arm. All are judged by what ``judge`` states for a class, or by ``slo`` where that is nothing. With a
    ``judge`` each arm is also judged by what its own preset states.
    """
    judged = stated_by(judge, arms[0].model, traffic.requests)
    if judge is not None and judged:  # a class that states nothing misses nothing
        judged = {name: judged.get(name, ClassSlo(None, None)) for name in judge.classes}
    runs = [_run(arm, traffic, slo, judged, seed, clients, progress) for arm in arms]
    return Comparison(
        workload=traffic.words,
        seed=seed,
        model=arms[0].model,
        slo=slo,
        judged=judged,
        runs=runs,
        ceiling_per_s=traffic.ceiling_per_s,
        arrivals=len(traffic.requests),
        warmup_s=traffic.warmup_s,
    )


def _run(
    arm: Arm,
    traffic: Traffic,
    slo: Slo,
    judged: Mapping[str, ClassSlo],
    seed: int,
    clients: Clients | None,
    progress: Progress | None,
) -> Run:
    total = max(len(traffic.requests), 1)

    def come(number: int) -> None:
        if progress is not None:
            progress(arm.name, min(number / total, 1.0))

    result = simulate(traffic.requests, arm.preset, arm.model, clients=clients, seed=seed, progress=come)
    own = stated_by(arm.preset, arm.model, traffic.requests) if judged else {}
    summary = summarise(arm.name, result, slo, warmup_s=traffic.warmup_s, span_s=traffic.span_s, own=own, judged=judged)
    seats = "" if arm.preset is None else seat_words(arm.preset.settings(), arm.model.max_num_seqs)
    return Run(arm.name, result, summary, limited=arm.preset is not None, seats=seats)
