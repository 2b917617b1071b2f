"""The facts of the diagnosis: each from the series, or the answer of the server, that says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.api.schema import EngineStatus, FallbackState, WarmupStatus
from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.diagnosis.facts import facts_of
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.model import Labels, Point, Series
from headway_dashboard.analysis.server.objectives import ClassObjectives
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.sources import Health, SourceReading
from headway_policies.diagnosis import ClassFacts, Facts
from headway_policies.engine import EngineState
from headway_policies.fallback import Rung

TIMES_S = (1000.0, 1002.0)
WARM = Status(known=True, admission="open", warmup=WarmupStatus(state="done"))


def reading(answers: Mapping[Expression, Point | Mapping[Labels, Point]]) -> SourceReading:
    """A reading with these newest points: one number, or one for each label."""
    lines = {one: found if isinstance(found, Mapping) else {(): found} for one, found in answers.items()}
    series = {one: Series(TIMES_S, {key: [point] * 2 for key, point in found.items()}) for one, found in lines.items()}
    return SourceReading(series, Health(1002.0), 2.0, "test", range_s=4.0, end_s=1002.0)


def test_nothing_measured_is_nothing_known() -> None:
    """An empty reading and no status give the facts that are their own defaults."""
    assert facts_of(reading({}), Status()) == Facts()


def test_every_fact_has_its_source() -> None:
    """The whole, from the newest points and the status; nothing is mistaken for another figure."""
    found = facts_of(
        reading(
            {
                panels.ENGINE_STATE: {("up",): 1, ("lost",): 0}, panels.PRESET: {("balanced", "7"): 1},
                panels.SEATS: 20, panels.BATCH: 18, panels.LIMIT: 32, panels.CEILING: 64, panels.QUEUED: 3,
                panels.OLDEST: 1.5, panels.KV_USE: 0.4, panels.ERROR_SHARE: 0.1, panels.TTFT[0.95]: 0.7,
                panels.ERRORS_BY_CAUSE: {("engine_lost", ""): 1.0, ("queue_full", ""): 1.0, ("", "failed"): 2.0},
                panels.RUNG: Rung.CAP, panels.READY: 1,
                panels.QUEUED_BY_CLASS: {("normal",): 3}, panels.IN_FLIGHT_BY_CLASS: {("normal",): 5},
                panels.ARRIVALS_BY_CLASS: {("normal",): 2}, panels.TTFT_P95_BY_CLASS: {("normal",): 0.8},
                panels.ERROR_SHARE_BY_CLASS: {("normal",): 0.2}, panels.OVERLOADED_BY_CLASS: {("normal",): 1},
                panels.RESERVED_SEATS_BY_CLASS: {("normal",): 9},
            }
        ),
        replace(
            WARM,
            limit_reason="slo",
            strategy="dynamic",
            adaptive=True,
            objectives={"normal": ClassObjectives(2.0, 60.0, 0.2)},
            ladder=FallbackState(rung="shed", ordered="shed"),
        ),
    )  # fmt: skip
    assert found == Facts(
        engine=EngineState.UP, preset="balanced", strategy="dynamic", adaptive=True,
        seats_taken=20, limit=32, ceiling=64, limit_reason="slo", reserved_seats=4, queued=3, oldest_wait_s=1.5,
        mean_batch=18, kv_ratio=0.4, error_share=0.1, failed_share=pytest.approx(0.075), invalid_share=0.0,
        expired_share=0.0, refused_share=pytest.approx(0.025),
        causes={"engine lost": 1.0, "queue full": 1.0, "failed": 2.0}, rung="shed", rung_set=True, ttft_p95_s=0.7,
        classes=(ClassFacts("normal", 0.8, None, 0.2, 2.0, 60.0, 0.2, overloaded=True, reserved_seats=4),),
    )  # fmt: skip


# ---------------------------------------------------------------------- whether requests are dispatched


@pytest.mark.parametrize(
    ("engine_state", "status", "engine", "stopped"),
    [
        ("up", Status(), EngineState.UP, ""),
        ("silent", Status(), EngineState.SILENT, ""),
        ("restarting", Status(reasons=("the engine is being replaced: pausing for 5 s",)), EngineState.RESTARTING,
         "the engine is being replaced: pausing for 5 s"),
        ("up", replace(WARM, engine=EngineStatus(state="silent")), EngineState.SILENT, ""),
        ("", Status(), None, ""),
        ("moonlit", Status(), None, ""),
        ("lost", WARM, EngineState.LOST, "the engine is gone or not warm"),
        ("lost", Status(), None, "the engine is gone or not warm"),
        ("lost", Status(reasons=("the engine is not running",)), None, "the engine is not running"),
        ("lost", replace(WARM, warmup=WarmupStatus(state="running"), reasons=("warm-up running",)), None,
         "warm-up running"),
        ("up", replace(WARM, admission="paused"), EngineState.UP, "admission is paused"),
        ("up", replace(WARM, reasons=("warm-up failed", "draining")), EngineState.UP, "warm-up failed, draining"),
        ("up", replace(WARM, ladder=FallbackState(rung="pause")), EngineState.UP,
         "the fallback ladder is on its rung pause"),
    ],
    ids=[
        "up", "silent", "restarting", "the status is newer", "not measured", "of a later server", "lost",
        "lost, no token", "lost, no token, a reason", "not warm yet", "paused", "two reasons", "paused by the ladder",
    ],
)  # fmt: skip
def test_whether_requests_are_dispatched(
    engine_state: str, status: Status, engine: EngineState | None, stopped: str
) -> None:
    """The engine, and why no request is sent to it; a server that warms up has lost none, though its state is lost."""
    states = {(engine_state,): 1.0} if engine_state else {}
    found = facts_of(reading({panels.ENGINE_STATE: states, panels.READY: 1}), status)
    assert (found.engine, found.stopped) == (engine, stopped)


def test_a_drain_is_planned_only_where_the_server_ends() -> None:
    """One that an operator has ordered lasts until a resume."""
    draining = replace(WARM, admission="draining", reasons=("draining",))
    assert facts_of(reading({}), draining).planned
    assert not facts_of(reading({}), replace(draining, blocks=("operator",))).planned


def test_a_server_that_is_not_ready_is_stopped_whatever_it_says() -> None:
    """The metric alone is enough; a ladder that is on pause is known from the metrics, too."""
    assert facts_of(reading({panels.READY: 0}), Status()).stopped == "the server is not ready"
    assert facts_of(reading({panels.RUNG: Rung.PAUSE}), Status()).stopped == "the fallback ladder is on its rung pause"


# ---------------------------------------------------------------------- seats and memory


def test_a_server_without_seats_has_the_sequences_of_a_step() -> None:
    """An older server's batch size stands for its seats taken; 0 seats are a number."""
    assert facts_of(reading({panels.BATCH: 18}), Status()).seats_taken == 18
    assert facts_of(reading({panels.BATCH: 18, panels.SEATS: 0}), Status()).seats_taken == 0


@pytest.mark.parametrize(
    ("held", "running", "free"),
    [(4.0, 1.0, 3.0), (4.0, 6.0, 0.0), (4.0, None, 4.0), (None, 1.0, 0.0)],
    ids=["some taken", "more than held", "not measured", "none held"],
)
def test_held_seats_are_those_that_are_free(held: Point, running: Point, free: float) -> None:
    """The metric counts seats that the class has taken as well; one class's surplus is not another's."""
    answers = {
        panels.RESERVED_SEATS_BY_CLASS: {("realtime",): held, ("normal",): 2.0},
        panels.IN_FLIGHT_BY_CLASS: {("realtime",): running, ("normal",): 9.0},
    }
    assert facts_of(reading(answers), Status()).reserved_seats == free


def test_the_kv_cache_of_an_engine_without_sequences_is_empty() -> None:
    """The engine reports with each step: after the last one the report stays as it was."""
    assert facts_of(reading({panels.KV_USE: 0.97, panels.SEATS: 0}), Status()).kv_ratio == 0.0
    assert facts_of(reading({panels.KV_USE: 0.97, panels.SEATS: 1}), Status()).kv_ratio == 0.97
    assert facts_of(reading({panels.KV_USE: 0.97}), Status()).kv_ratio == 0.97
    assert facts_of(reading({panels.SEATS: 0}), Status()).kv_ratio is None


# ---------------------------------------------------------------------- errors

RATES = st.floats(0.001, 100)
CAUSES = st.sampled_from([("queue_full", ""), ("out_of_memory", ""), ("poison", ""), ("", "failed"), ("sun_spots", "")])


@given(st.dictionaries(CAUSES, RATES), RATES, st.floats(0.001, 1))
def test_the_parts_of_the_error_share_are_parts_of_the_same_whole(
    others: dict[Labels, float], invalid_per_s: float, error_share: float
) -> None:
    """A cause's share of the errors is its share of the error share; the known parts never exceed the whole."""
    rates = others | {("", "rejected_invalid"): invalid_per_s}
    found = facts_of(reading({panels.ERROR_SHARE: error_share, panels.ERRORS_BY_CAUSE: rates}), Status())
    whole = sum(rates.values())
    in_engine = sum(
        rates.get(key, 0.0) for key in (("engine_lost", ""), ("out_of_memory", ""), ("poison", ""), ("", "failed"))
    )
    assert found.invalid_share == pytest.approx(error_share * invalid_per_s / whole)
    assert found.failed_share == pytest.approx(error_share * in_engine / whole)
    assert found.failed_share is not None
    assert found.invalid_share is not None
    assert found.failed_share + found.invalid_share <= error_share * (1 + 1e-9)


@pytest.mark.parametrize(
    ("share", "part"), [(None, None), (0.0, 0.0), (0.3, None)], ids=["no ended request", "no error", "no causes"]
)
def test_parts_of_an_error_share_without_causes(share: Point, part: Point) -> None:
    """No error has no parts; without causes the parts are not known, which is not 0."""
    found = facts_of(reading({panels.ERROR_SHARE: share}), Status())
    assert (found.failed_share, found.invalid_share) == (part, part)


# ---------------------------------------------------------------------- classes


@pytest.mark.parametrize(
    ("arrivals_per_s", "queued", "in_flight", "idle"),
    [(0, 0, 0, True), (1, 0, 0, False), (0, 1, 0, False), (0, 0, 1, False), (None, 0, 0, False), (0, 0, None, False)],
)
def test_a_class_is_idle_when_nothing_of_it_moves(
    arrivals_per_s: Point, queued: Point, in_flight: Point, idle: bool
) -> None:
    """Only then its first tokens need not be known; what was not measured is not nothing."""
    activity = {
        panels.ARRIVALS_BY_CLASS: arrivals_per_s, panels.QUEUED_BY_CLASS: queued, panels.IN_FLIGHT_BY_CLASS: in_flight
    }  # fmt: skip
    (found,) = facts_of(reading({one: {("batch",): point} for one, point in activity.items()}), Status()).classes
    assert found.idle is idle


def test_objectives_are_known_with_the_preset_alone() -> None:
    """Without its settings, and for a class that it does not have, a bound is not known: that is not infinite."""
    two = reading({panels.QUEUED_BY_CLASS: {("normal",): 0, ("gone",): 0}})
    stated = {"normal": ClassObjectives(ttft_slo_s=2.0)}
    normal, gone = facts_of(two, replace(WARM, objectives=stated)).classes
    assert (normal.ttft_slo_s, normal.first_token_timeout_s, normal.inter_token_slo_s) == (2.0, inf, inf)
    assert (gone.ttft_slo_s, gone.first_token_timeout_s, gone.inter_token_slo_s) == (None, None, None)
    assert facts_of(two, Status()).classes[0].ttft_slo_s is None
