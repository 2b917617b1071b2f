"""The conditions of the alerts in ``deploy/prometheus/rules.yml`` that hold now, as far as the metrics here tell.

Pure: a reading of the last quarter of an hour in, a list out. A rule waits until its condition has held for a while
before it notifies anybody; the page does not, so that a condition is shown here first. What compares servers with each
other is left to Prometheus.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import fsum
from typing import Literal

from headway_dashboard.analysis.catalogue import panels, thresholds
from headway_dashboard.analysis.queries.expressions import Expression, Gauge, Metric
from headway_dashboard.analysis.queries.model import Series, increases
from headway_dashboard.analysis.queries.reading import Reading
from headway_dashboard.analysis.server.condition import Condition, State
from headway_dashboard.analysis.server.instances import INSTANCE
from headway_dashboard.analysis.units import compact, duration, written
from headway_policies.diagnosis import Severity

#: How far back the rules look, in seconds, and what a reading for them must cover.
BRIEFLY_S, LONG_S, RANGE_S = 300.0, 60.0 * thresholds.STARVED_MIN, 900.0

#: Counters keep their servers apart: growth is counted on each, so that one that begins again or ends changes nothing.
OUTCOMES = Gauge(Metric("headway_outcomes_total", by=("outcome", INSTANCE)))
REALTIME_REFUSALS = Gauge(Metric("headway_refusals_total", (("class", ("realtime",)),), by=("reason", INSTANCE)))
DEATHS = Gauge(Metric("headway_engine_deaths_total", by=("cause", INSTANCE)))
SEVERITY = Gauge(Metric("headway_severity"), largest=True)
INVALID = Gauge(Metric("headway_bottleneck", (("bottleneck", ("invalid_requests",)),)), largest=True)
DISPATCHED = Gauge(Metric("headway_queue_wait_seconds_count", by=("class", INSTANCE)))
COMPILING = Gauge(Metric("headway_grammars_compiling", by=(INSTANCE,)))
ENGINE_COMPILING = Gauge(Metric("headway_engine_compiling_seconds"), largest=True)
UNCHECKED = Gauge(Metric("headway_grammar_checks_total", (("result", ("unchecked",)),), by=(INSTANCE,)))
PREEMPTIONS = Gauge(Metric("vllm:num_preemptions_total", by=(INSTANCE,)))

EXPRESSIONS: tuple[Expression, ...] = (
    OUTCOMES,
    REALTIME_REFUSALS,
    SEVERITY,
    INVALID,
    DISPATCHED,
    PREEMPTIONS,
    DEATHS,
    COMPILING,
    ENGINE_COMPILING,
    UNCHECKED,
    panels.READY,
    panels.ENGINE_STATE,
    panels.LIMIT,
    panels.QUEUED,
    panels.QUEUED_BY_CLASS,
    panels.OLDEST_BY_CLASS,
    panels.KV_USE,
)


@dataclass(frozen=True, slots=True)
class Alert:
    """One condition that holds: the name of its rule, how bad it is, and a sentence without its full stop."""

    name: str
    severity: Literal["critical", "warning"]
    text: str


def alerts_of(reading: Reading, state: Condition) -> tuple[Alert, ...]:
    """What holds now, the critical ones first; nothing while the figures are old. ``reading`` has ``EXPRESSIONS``."""
    if state.state is State.DOWN:
        return (Alert("HeadwayDown", "critical", "the server does not answer"),)
    if not state.current:
        return ()
    return tuple(sorted(_found(reading), key=lambda one: one.severity != "critical"))


def names_at(reading: Reading, time_s: float) -> frozenset[str]:
    """The names of the alerts whose condition held at an instant of a reading, by what had been measured until then."""
    return frozenset(one.name for one in _found(_until(reading, time_s)))


def _found(reading: Reading) -> list[Alert]:
    return [alert for rule in _RULES for alert in rule(reading)]


def _until(reading: Reading, time_s: float) -> Reading:
    """The last quarter of an hour before an instant, that instant included."""
    return replace(reading, series={one: _cut(found, time_s) for one, found in reading.series.items()})


def _cut(series: Series, time_s: float) -> Series:
    part = slice(bisect_left(series.times_s, time_s - RANGE_S), bisect_right(series.times_s, time_s))
    return Series(series.times_s[part], {labels: line[part] for labels, line in series.lines.items()})


# ---------------------------------------------------------------------- the engine and readiness


def _not_ready(reading: Reading) -> Iterator[Alert]:
    if reading[panels.READY].latest() == 0:
        yield Alert("HeadwayNotReady", "critical", "the server takes no traffic")


def _engine_lost(reading: Reading) -> Iterator[Alert]:
    lost = _grown(reading[OUTCOMES], BRIEFLY_S).get("engine_lost", 0.0)
    if lost > 0:
        yield Alert("HeadwayEngineLost", "critical", f"{compact(lost)} requests ended with their engine")


def _engine_replaced(reading: Reading) -> Iterator[Alert]:
    deaths = _grown(reading[DEATHS], RANGE_S)
    causes = [cause for cause, number in deaths.items() if number > 0 and cause != "recycle"]
    if deaths.get("out_of_memory", 0.0) > 1:
        yield Alert("HeadwayEngineOutOfMemoryAgain", "critical", "the engine ran out of memory again")
    if causes:
        yield Alert("HeadwayEngineReplaced", "warning", f"the engine died ({_listed(causes)})")


def _engine_silent(reading: Reading) -> Iterator[Alert]:
    if reading[panels.ENGINE_STATE].latest("silent") == 1:
        yield Alert("HeadwayEngineSilent", "critical", "the engine is unresponsive")


# ---------------------------------------------------------------------- errors


def _errors(reading: Reading) -> Iterator[Alert]:
    ended = _grown(reading[OUTCOMES], BRIEFLY_S)
    failed = _share(ended, ("failed", "engine_lost"))
    if failed > thresholds.ERROR_RATIO:
        yield Alert("HeadwayErrorShare", "warning", f"{written(failed, 'ratio')} of the requests failed")
    late = _share(ended, ("expired_queued", "expired_running"))
    if late > thresholds.TIMEOUT_RATIO:
        yield Alert("HeadwayTimeoutShare", "warning", f"{written(late, 'ratio')} of the requests ran out of time")


def _realtime_refused(reading: Reading) -> Iterator[Alert]:
    reasons = [reason for reason, number in _grown(reading[REALTIME_REFUSALS], BRIEFLY_S).items() if number > 0]
    if reasons:
        yield Alert("HeadwayRealtimeRefused", "warning", f"realtime requests were refused ({_listed(reasons)})")


# ---------------------------------------------------------------------- the diagnosis and the queue


def _diagnosis(reading: Reading) -> Iterator[Alert]:
    severities = _recent(reading[SEVERITY], BRIEFLY_S).get("", [])
    if not severities:
        return
    if severities.count(Severity.OVERLOADED) / len(severities) > thresholds.OVERLOADED_RATIO:
        yield Alert("HeadwayOverloaded", "warning", "more requests arrive than can be served in time")
    bad = Severity.DEGRADED <= severities[-1] < Severity.DOWN
    if bad and reading[INVALID].latest() != 1:
        yield Alert("HeadwayDegraded", "warning", "an objective is missed, or requests fail or are degraded")


def _queue(reading: Reading) -> Iterator[Alert]:
    for name, bound_s in thresholds.QUEUE_AGE_S.items():
        oldest_s = reading[panels.OLDEST_BY_CLASS].latest(name)
        if oldest_s is not None and oldest_s > bound_s:
            yield Alert("HeadwayQueueOld", "warning", f"a request of class {name} has waited {duration(oldest_s)}")
    depths = _recent(reading[panels.QUEUED], BRIEFLY_S).get("", [])
    limit = reading[panels.LIMIT].latest()
    covered = _covers(reading[panels.QUEUED], depths, BRIEFLY_S)
    if limit is not None and covered and min(depths) > thresholds.QUEUE_BATCHES * limit:
        text = f"the queue has been more than {thresholds.QUEUE_BATCHES} batches long for {duration(BRIEFLY_S)}"
        yield Alert("HeadwayQueueLong", "warning", text)


def _starvation(reading: Reading) -> Iterator[Alert]:
    dispatched = _grown(reading[DISPATCHED], LONG_S)
    for name, depths in _recent(reading[panels.QUEUED_BY_CLASS], LONG_S).items():
        if _covers(reading[panels.QUEUED_BY_CLASS], depths, LONG_S) and min(depths) > 0 and dispatched.get(name) == 0:
            text = f"no request of class {name} got a seat for {duration(LONG_S)}"
            yield Alert("HeadwayClassStarves", "warning", text)


def _kv_full(reading: Reading) -> Iterator[Alert]:
    usage = reading[panels.KV_USE].latest()
    preempted = fsum(_grown(reading[PREEMPTIONS], BRIEFLY_S).values())
    if usage is not None and usage > thresholds.KV_RATIO and preempted > 0:
        yield Alert("HeadwayKvCacheFull", "warning", "the KV cache is full, and requests are preempted")


def _grammars(reading: Reading) -> Iterator[Alert]:
    compiling = _recent(reading[COMPILING], BRIEFLY_S).values()
    if any(one and _covers(reading[COMPILING], one, BRIEFLY_S) and min(one) > 0 for one in compiling):
        text = f"grammars have been compiled for {duration(BRIEFLY_S)} without a pause"
        yield Alert("HeadwayGrammarsCompile", "warning", text)
    unchecked = fsum(_grown(reading[UNCHECKED], BRIEFLY_S).values())
    if unchecked > 0:
        yield Alert(
            "HeadwayGrammarsUnchecked", "warning", f"{compact(unchecked)} grammars reached the engine unchecked"
        )
    compiling_s = reading[ENGINE_COMPILING].latest()
    if compiling_s is not None and compiling_s > thresholds.COMPILING_S:
        text = f"the engine has been compiling a grammar for {duration(compiling_s)}: structured outputs wait"
        yield Alert("HeadwayGrammarStuck", "warning", text)


_RULES: tuple[Callable[[Reading], Iterator[Alert]], ...] = (
    _not_ready,
    _engine_lost,
    _engine_replaced,
    _engine_silent,
    _errors,
    _realtime_refused,
    _diagnosis,
    _queue,
    _starvation,
    _kv_full,
    _grammars,
)


# ---------------------------------------------------------------------- the last minutes of a series


def _recent(series: Series, within_s: float) -> dict[str, list[float]]:
    """The measured points of the last seconds, by the label of each line."""
    since_s = series.times_s[-1] - within_s if series.times_s else 0.0
    return {
        labels[0] if labels else "": [
            point for time_s, point in zip(series.times_s, line, strict=True) if point is not None and time_s >= since_s
        ]
        for labels, line in series.lines.items()
    }


def _grown(series: Series, within_s: float) -> dict[str, float]:
    """By how much the counters of each first label grew in the last seconds, those of several servers together."""
    grown: dict[str, float] = {}
    for labels in series.lines:
        alone = Series(series.times_s, {labels: series.lines[labels]})
        for name, points in _recent(alone, within_s).items():
            if points:
                grown[name] = grown.get(name, 0.0) + increases(points)[-1]
    return grown


def _covers(series: Series, points: list[float], within_s: float) -> bool:
    """Whether there is a point for nearly all of the last seconds."""
    step_s = series.times_s[1] - series.times_s[0] if len(series.times_s) > 1 else within_s
    return len(points) >= thresholds.MEASURED_RATIO * within_s / step_s


def _share(ended: Mapping[str, float], outcomes: tuple[str, ...]) -> float:
    whole = fsum(ended.values())
    return fsum(ended.get(one, 0.0) for one in outcomes) / whole if whole > 0 else 0.0


def _listed(names: Iterable[str]) -> str:
    return ", ".join(name.replace("_", " ") for name in sorted(names))
