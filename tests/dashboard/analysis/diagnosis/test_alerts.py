"""The alert conditions that the page computes: the same bounds as the rules of Prometheus."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from readings import Lines, reading_of
from running_server import ROOT

from headway_dashboard.analysis.catalogue import panels, thresholds
from headway_dashboard.analysis.diagnosis import alerts
from headway_dashboard.analysis.diagnosis.alerts import Alert, alerts_of
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.model import Point
from headway_dashboard.analysis.server.condition import Condition, State

NOW = Condition(State.LIVE, "")
RULES = ROOT / "deploy" / "prometheus" / "rules.yml"
STEP_S = 4.0
#: A quarter of an hour.
COUNT = 226

Answers = Mapping[Expression, Lines | list[Point]]


def flat(value: float) -> list[Point]:
    """The same value all the time."""
    return [value] * COUNT


def grown(by: float) -> list[Point]:
    """A counter that grew in the last minute."""
    return [5.0] * (COUNT - 1) + [5.0 + by]


def names(answers: Answers) -> list[str]:
    """The rules whose condition holds."""
    return [one.name for one in alerts_of(reading_of(answers, step_s=STEP_S), NOW)]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({}, []),
        ({panels.READY: flat(1.0)}, []),
        ({panels.READY: flat(0.0)}, ["HeadwayNotReady"]),
        ({panels.ENGINE_STATE: {("silent",): flat(1.0)}}, ["HeadwayEngineSilent"]),
        (
            {alerts.OUTCOMES: {("engine_lost",): grown(2), ("completed",): grown(998)}},
            ["HeadwayEngineLost"],
        ),
        ({alerts.OUTCOMES: {("failed",): grown(1), ("completed",): grown(99)}}, []),
        ({alerts.OUTCOMES: {("failed",): grown(2), ("completed",): grown(98)}}, ["HeadwayErrorShare"]),
        ({alerts.OUTCOMES: {("expired_queued",): grown(6), ("completed",): grown(94)}}, ["HeadwayTimeoutShare"]),
        ({alerts.DEATHS: {("recycle",): grown(1)}}, []),
        ({alerts.DEATHS: {("crash",): grown(1)}}, ["HeadwayEngineReplaced"]),
        (
            {alerts.DEATHS: {("out_of_memory",): grown(2)}},
            ["HeadwayEngineOutOfMemoryAgain", "HeadwayEngineReplaced"],
        ),
        ({alerts.REALTIME_REFUSALS: {("queue_full",): grown(1), ("shed",): flat(3)}}, ["HeadwayRealtimeRefused"]),
        (
            {alerts.COMPILING: {("a:1",): flat(1.0)}, alerts.UNCHECKED: {("a:1",): flat(3.0)}},
            ["HeadwayGrammarsCompile"],
        ),
        ({alerts.COMPILING: {("a:1",): [*flat(1.0)[9:], 0.0, *flat(1.0)[:8]], ("b:1",): flat(0.0)}}, []),
        ({alerts.UNCHECKED: {("a:1",): grown(2)}}, ["HeadwayGrammarsUnchecked"]),
        ({alerts.ENGINE_COMPILING: flat(31.0)}, ["HeadwayGrammarStuck"]),
        ({alerts.ENGINE_COMPILING: flat(30.0)}, []),
        ({alerts.SEVERITY: flat(3.0)}, ["HeadwayOverloaded", "HeadwayDegraded"]),
        ({alerts.SEVERITY: flat(2.0)}, ["HeadwayDegraded"]),
        ({alerts.SEVERITY: flat(2.0), alerts.INVALID: flat(1.0)}, []),
        ({alerts.SEVERITY: flat(4.0)}, []),
        ({panels.OLDEST_BY_CLASS: {("realtime",): flat(2.5), ("batch",): flat(151.0)}}, ["HeadwayQueueOld"]),
        ({panels.QUEUED: flat(129.0), panels.LIMIT: flat(32.0)}, ["HeadwayQueueLong"]),
        ({panels.QUEUED: flat(128.0), panels.LIMIT: flat(32.0)}, []),
        ({panels.QUEUED: [*flat(129.0)[20:], 128.0, *flat(129.0)[:19]], panels.LIMIT: flat(32.0)}, []),
        ({panels.QUEUED: [None] * 200 + flat(129.0)[200:], panels.LIMIT: flat(32.0)}, []),
        (
            {panels.QUEUED_BY_CLASS: {("batch",): flat(3)}, alerts.DISPATCHED: {("batch",): flat(7)}},
            ["HeadwayClassStarves"],
        ),
        ({panels.QUEUED_BY_CLASS: {("batch",): flat(3)}, alerts.DISPATCHED: {("batch",): grown(1)}}, []),
        ({panels.KV_USE: flat(0.99), alerts.PREEMPTIONS: grown(4)}, ["HeadwayKvCacheFull"]),
        ({panels.KV_USE: flat(0.99), alerts.PREEMPTIONS: flat(4)}, []),
    ],
)
def test_a_condition_that_holds_is_named(answers: Answers, expected: list[str]) -> None:
    """Each rule by itself, with what is just inside and just outside its bound."""
    assert names(answers) == expected


def test_a_short_memory_starves_nobody() -> None:
    """Ten minutes have to be known before a class counts as starved."""
    known: list[Point] = [None] * 200 + [3.0] * 26
    assert names({panels.QUEUED_BY_CLASS: {("batch",): known}, alerts.DISPATCHED: {("batch",): flat(7)}}) == []


def test_old_figures_raise_no_alert() -> None:
    """Only that the server is away is known of a server that is away."""
    found = reading_of({panels.READY: flat(0.0)}, step_s=STEP_S)
    assert alerts_of(found, Condition(State.STALE, "")) == ()
    assert alerts_of(found, Condition(State.DOWN, "")) == (
        Alert("HeadwayDown", "critical", "the server does not answer"),
    )


@pytest.mark.skipif(not RULES.is_file(), reason="the rules are not here")
def test_the_bounds_are_those_of_the_rules() -> None:
    """A number that is changed in the file and not here fails."""
    rules = {rule["alert"]: rule for rule in _rules() if "alert" in rule}

    def numbers(name: str) -> list[float]:
        return [float(text) for text in re.findall(r"[<>]=? ([\d.]+)", rules[name]["expr"])]

    assert numbers("HeadwayErrorShare") == [thresholds.ERROR_RATIO]
    assert numbers("HeadwayTimeoutShare") == [thresholds.TIMEOUT_RATIO]
    assert numbers("HeadwayOverloaded") == [thresholds.OVERLOADED_RATIO]
    assert numbers("HeadwayKvCacheFull")[0] == thresholds.KV_RATIO
    assert numbers("HeadwayQueueOld") == list(thresholds.QUEUE_AGE_S.values())
    assert numbers("HeadwayQueueLong")[0] == thresholds.QUEUE_BATCHES


@pytest.mark.skipif(not RULES.is_file(), reason="the rules are not here")
def test_every_rule_is_computed_or_left_out_on_purpose() -> None:
    """A rule that is added to the file is noticed here."""
    source = (ROOT / "dashboard/headway_dashboard/analysis/diagnosis/alerts.py").read_text(encoding="utf-8")
    here = set(re.findall(r'Alert\(\s*"(Headway\w+)"', source))
    of_prometheus = {
        *("HeadwayNoTelemetry", "HeadwayNotInServer", "HeadwayPresetsDiffer"),
        *("HeadwayObjectiveBurnsFast", "HeadwayObjectiveBurnsSlowly", "HeadwayUnanswered", "HeadwayUnansweredHigh"),
        *("HeadwayGpuMemoryFull", "HeadwayMemoryNearLimit", "HeadwayProcessorSaturated"),
    }
    assert {rule["alert"] for rule in _rules() if "alert" in rule} == here | of_prometheus


def _rules() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_the_alerts_of_an_instant_are_those_of_that_time() -> None:
    """What came later is not known then; at the end it is what the page shows."""
    ready: list[Point] = [1.0] * (COUNT - 10) + [0.0] * 10
    reading = reading_of({panels.READY: ready}, step_s=STEP_S)
    assert alerts.names_at(reading, reading.end_s - 11 * STEP_S) == frozenset()
    shown = {one.name for one in alerts_of(reading, NOW)}
    assert alerts.names_at(reading, reading.end_s) == shown == {"HeadwayNotReady"}


def test_a_server_that_begins_again_or_comes_back_raises_nothing() -> None:
    """Growth is counted on each server: neither a fall of the sum nor its jump is a burst of failures."""
    restarted: list[Point] = [900.0] * 150 + [0.0] * (COUNT - 150)
    returned: list[Point] = [700.0] * 100 + [None] * 100 + [700.0] * (COUNT - 200)
    steady = [float(at) for at in range(COUNT)]
    counters: Mapping[Expression, Lines] = {
        alerts.OUTCOMES: {
            ("failed", "a:1"): restarted,
            ("failed", "b:1"): returned,
            ("completed", "a:1"): steady,
            ("completed", "b:1"): steady,
        },
        alerts.DEATHS: {("crash", "a:1"): restarted, ("crash", "b:1"): returned},
        alerts.PREEMPTIONS: {("a:1",): restarted, ("b:1",): returned},
        panels.KV_USE: {(): flat(0.99)},
    }
    assert names(counters) == []
    one_more: list[Point] = [*returned[:-1], 701.0]
    assert names({alerts.DEATHS: {("crash", "b:1"): one_more}}) == ["HeadwayEngineReplaced"]
