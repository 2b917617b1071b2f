"""The load as a router reads it, on a simulated day with two peaks: as good as a capacity that is known beforehand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from scaled_fleet import Day, ScaledRun, ScaledShell, simulate_scaled
from simulated_fleet import OneDesk
from tiers import long_form

from headway.admission import Gate
from headway.operator.scaling.load_reader import LoadReader
from headway_policies import Outcome
from headway_policies.scaling import ArrivalHistory, Scaling, ScalingSignals
from headway_simulator.engine_model.capacity import Slo, ceiling
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.report.summary import summarise
from headway_simulator.studies.strategies import plain
from headway_simulator.traffic.lengths import lognormal
from headway_simulator.traffic.workload import Phase, Request, Workload

pytestmark = pytest.mark.slow

MODEL, SLO = EngineModel(), Slo()
CEILING = ceiling(MODEL, 64, 64, SLO)
DAY_S, EVERY_S = 2400.0, 15.0
SETTINGS = Scaling(minimum=1, maximum=5, start_s=90.0, ahead_s=30.0, down_after_s=120.0, down_step_s=15.0, day_s=DAY_S)
#: Seconds, and the load in multiples of what one instance serves.
PARTS = ((500.0, 0.4), (300.0, 2.5), (700.0, 0.6), (300.0, 3.0), (600.0, 0.4))
PHASES = tuple(Phase(lognormal(64, 0.7, 1, 2048), lognormal(64, 1.0), length_s, load) for length_s, load in PARTS)
TWO_PEAKS = Workload("two-peaks", "a short day with two peaks", PHASES, classes={"normal": 1.0})
PLAIN = plain("continuous", CEILING.seats)
DUE = {name: one.model_copy(update={"ttft_slo_s": SLO.ttft_s}) for name, one in PLAIN.classes.items()}
PRESET = PLAIN.model_copy(update={"classes": DUE})


class RouterShell(ScaledShell):
    """Decides by what a router reads of its desk, in seats; the capacity that a run is told of is not used."""

    def __init__(self, history: ArrivalHistory | None, began_s: float) -> None:
        day = Day(1.0, SLO.ttft_s, history, began_s)
        super().__init__(OneDesk(PRESET, [MODEL] * SETTINGS.maximum, CEILING.seats), SETTINGS, day)
        gate = SimpleNamespace(desk=self._one.desk, now_s=lambda: self._now_s)
        self._reader = LoadReader(cast(Gate, gate), lambda: len(self._serving))

    def _seen(self, now_s: float) -> ScalingSignals:
        seen = self._reader.read()
        assert seen is not None
        if self._day.history is not None:
            self._day.history.observe(seen.offered * EVERY_S, self._day.began_s + now_s)
        return seen


def a_day(seed: int) -> list[Request]:
    """One day of requests."""
    return TWO_PEAKS.requests(DAY_S, seed, model=MODEL, slo=SLO, load=1.0)


def served(seed: int, history: ArrivalHistory | None = None, began_s: float = 0.0) -> tuple[float, float]:
    """The share of a day's requests that missed an objective, and the instance hours."""
    shell = RouterShell(history, began_s)
    result = shell.run(a_day(seed), (), None)
    return _missed(ScaledRun(result, shell.instance_hours, shell.numbers)), shell.instance_hours


def _missed(run: ScaledRun) -> float:
    return 1.0 - summarise("", run.result, SLO, span_s=DAY_S).all.attained_ratio


@long_form("tests/policies/scaling learns from such days, test_load_reader has the readings")
def test_two_days_are_learnt_and_the_third_is_served_ahead() -> None:
    """From its own traffic alone: far fewer misses than without the days before, for few more hours; and without them
    no more of either than with a capacity that is known beforehand."""
    history = ArrivalHistory(slot_s=60.0, day_s=DAY_S)
    for number in (0, 1):
        served(100 + number, history, number * DAY_S)
    missed, hours = served(1, history, 2 * DAY_S)
    reacting_missed, reacting_hours = served(1)
    assert missed < 0.2 * reacting_missed
    assert hours < 1.2 * reacting_hours
    day = Day(CEILING.requests_per_s, SLO.ttft_s)
    known = simulate_scaled(a_day(1), PRESET, MODEL, CEILING.seats, SETTINGS, day)
    assert reacting_missed < 1.1 * _missed(known)
    assert reacting_hours < 1.1 * known.instance_hours
    assert {visit.outcome for visit in known.result.visits} <= {Outcome.COMPLETED, Outcome.SHED}, "what runs ends there"
    assert len(known.result.visits) == len(a_day(1))
