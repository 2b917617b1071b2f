"""Instances that come and go: a forecast by the time of day against reacting, on a day with two peaks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from scaled_fleet import Day, ScaledRun, simulate_scaled

from headway_policies import Outcome
from headway_policies.scaling import ArrivalHistory, Scaling
from headway_simulator.engine_model.capacity import Slo, ceiling
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.report.summary import summarise
from headway_simulator.studies.strategies import plain
from headway_simulator.traffic.lengths import lognormal
from headway_simulator.traffic.workload import Phase, Request, Workload

MODEL, SLO = EngineModel(), Slo()
CEILING = ceiling(MODEL, 64, 64, SLO)
DAY_S = 2400.0
SETTINGS = Scaling(minimum=1, maximum=5, start_s=90.0, ahead_s=30.0, down_after_s=120.0, down_step_s=15.0, day_s=DAY_S)
PROMPT, OUTPUT = lognormal(64, 0.7, 1, 2048), lognormal(64, 1.0)
#: Seconds, and the load in multiples of what one instance serves.
PARTS = ((500.0, 0.4), (300.0, 2.5), (700.0, 0.6), (300.0, 3.0), (600.0, 0.4))
TWO_PEAKS = Workload(
    "two-peaks",
    "a short day with two peaks",
    tuple(Phase(PROMPT, OUTPUT, length_s, load) for length_s, load in PARTS),
    classes={"normal": 1.0},
)


def a_day(seed: int) -> list[Request]:
    """One day of requests."""
    return TWO_PEAKS.requests(DAY_S, seed, model=MODEL, slo=SLO, load=1.0)


def last_days(number: int) -> ArrivalHistory:
    """What was observed on so many days before."""
    history = ArrivalHistory(slot_s=60.0, day_s=DAY_S)
    for day in range(number):
        history.observe(0, day * DAY_S)
        for request in a_day(100 + day):
            history.observe(1, day * DAY_S + request.at_s)
    return history


def served(history: ArrivalHistory | None) -> tuple[ScaledRun, float]:
    """The third day, and the share of its requests that missed an objective."""
    day = Day(CEILING.requests_per_s, SLO.ttft_s, history, began_s=2 * DAY_S)
    run = simulate_scaled(a_day(1), plain("continuous", CEILING.seats), MODEL, CEILING.seats, SETTINGS, day)
    return run, 1.0 - summarise("", run.result, SLO, span_s=DAY_S).all.attained_ratio


def test_a_forecast_misses_fewer_objectives_for_few_more_hours() -> None:
    """Two days were seen before. The instances of a peak are there when it begins."""
    (reacting, reacting_missed), (ahead, ahead_missed) = served(None), served(last_days(2))
    assert ahead_missed < 0.5 * reacting_missed
    assert ahead.instance_hours < 1.4 * reacting.instance_hours
    assert ahead.instance_hours < 0.9 * SETTINGS.maximum * DAY_S / 3600


def test_no_request_is_lost_when_instances_go() -> None:
    """What runs on one that is stopped ends there, and its hours end with the decision."""
    run, _ = served(None)
    numbers = [number for _, number in run.numbers]
    assert min(numbers) == SETTINGS.minimum < max(numbers) <= SETTINGS.maximum
    assert any(after < before for before, after in pairwise(numbers))
    assert {one.outcome for one in run.result.visits} == {Outcome.COMPLETED}
    assert len(run.result.visits) == len(a_day(1))


def test_instance_hours_are_those_wanted() -> None:
    """Without a request that waits, the minimum for as long as the run takes."""
    quiet = [Request(float(at_s), "normal", 16, 4) for at_s in range(0, 600, 20)]
    day = Day(CEILING.requests_per_s, SLO.ttft_s)
    run = simulate_scaled(quiet, plain("continuous", 8), MODEL, 8, replace(SETTINGS, minimum=2), day)
    assert run.numbers == [(0.0, 2)]
    assert run.instance_hours == pytest.approx(2 * run.result.ended_s / 3600, rel=0.05)
