"""A day with two peaks, to judge scaling: two hours that stand for one, after two of the same kind."""

from __future__ import annotations

from dataclasses import dataclass

from scaled_fleet import Day, simulate_scaled

from headway_policies.scaling import ArrivalHistory, Scaling
from headway_simulator import EngineModel, Phase, Slo, Workload, ceiling, lognormal, plain, summarise
from headway_simulator.traffic.workload import Request

MODEL, SLO = EngineModel(), Slo()
CEILING = ceiling(MODEL, 64, 64, SLO)
DAY_S = 7200.0
#: Seconds, and the load in multiples of what one instance serves.
PARTS = ((1500.0, 0.4), (900.0, 3.2), (1800.0, 1.0), (1200.0, 4.0), (1800.0, 0.4))
TWO_PEAKS = Workload(
    "two peaks",
    "two hours with two peaks",
    tuple(Phase(lognormal(64, 0.7, 1, 2048), lognormal(64, 1.0), length_s, load) for length_s, load in PARTS),
    classes={"normal": 1.0},
)


@dataclass(frozen=True, slots=True)
class Trial:
    """The share of the requests that missed an objective, and the instance hours."""

    missed: float
    hours: float


def trial(start_s: float, *, forecast: bool, days_before: int = 2) -> Trial:
    """The day after those, with instances that take so long to start."""
    settings = Scaling(maximum=7, start_s=start_s, ahead_s=30.0, down_after_s=180.0, down_step_s=30.0, day_s=DAY_S)
    history = _observed(days_before) if forecast else None
    day = Day(CEILING.requests_per_s, SLO.ttft_s, history, began_s=days_before * DAY_S)
    run = simulate_scaled(_requests(1), plain("continuous", CEILING.seats), MODEL, CEILING.seats, settings, day)
    kept = summarise("", run.result, SLO, span_s=DAY_S).all.attained_ratio
    return Trial(1.0 - kept, run.instance_hours)


def _requests(seed: int) -> list[Request]:
    return TWO_PEAKS.requests(DAY_S, seed, model=MODEL, slo=SLO, load=1.0)


def _observed(days: int) -> ArrivalHistory:
    history = ArrivalHistory(slot_s=60.0, day_s=DAY_S)
    for day in range(days):
        for request in _requests(100 + day):
            history.observe(1, day * DAY_S + request.at_s)
    return history
