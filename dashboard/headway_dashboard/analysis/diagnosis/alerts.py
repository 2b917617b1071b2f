"""The alerts whose condition holds: the rules of ``catalogue.alerts``, evaluated for a page.

Prometheus notifies when a condition has held for a while; a page shows it at once. Whether a server answers at all is
known to the page by itself, so that the rules on ``up`` are left to Prometheus.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import get_args

from headway.api.schema import Silence
from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.catalogue.alerts import RULES
from headway_dashboard.analysis.catalogue.alerts.availability import DOWN
from headway_dashboard.analysis.catalogue.alerts.rule import Rule, Severity
from headway_dashboard.analysis.queries.conditions import needed_s
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.metric import INSTANCE
from headway_dashboard.analysis.queries.model import Mark, Series
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.server.condition import Condition, State
from headway_dashboard.analysis.server.instances import away
from headway_dashboard.analysis.units import written

CLASS = "class"
_SHOWN: Mapping[Expression, Rule] = {rule.asked: rule for rule in RULES if rule.asked.metric.name != "up"}
#: The questions whose answers the alerts need.
EXPRESSIONS: tuple[Expression, ...] = tuple(_SHOWN)
_ORDER: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True, slots=True)
class Alert:
    """A rule whose condition holds: its name, how bad it is, and a sentence without its full stop.

    ``since_s`` is when its condition began to hold, None where that is not known; not ``seen`` where it held at the
    first known instant already. ``of`` is the class. ``value`` is the quantity now, empty where the condition is all
    that is known, ``fires_at`` when the rule fires, and ``action`` what to do first. ``silence`` is that
    of an operator.
    """

    name: str
    severity: Severity
    text: str
    since_s: float | None = None
    seen: bool = False
    of: str = ""
    value: str = ""
    fires_at: str = ""
    action: str = ""
    silence: Silence | None = None


def alerts_of(
    reading: SourceReading,
    state: Condition,
    history: SourceReading | None = None,
    silences: Sequence[Silence] = (),
) -> tuple[Alert, ...]:
    """The active alerts, the worst first and silenced alerts last; empty while the figures are old.

    ``history`` reaches further back than the reading, and may hold the conditions too.
    """
    if state.state is State.DOWN:
        return (Alert(DOWN.name, DOWN.severity, DOWN.text, fires_at=DOWN.fires, action=DOWN.action),)
    found = (*_silent_servers(reading), *_holding(reading, history)) if state.current else ()
    silent = {silence.alert: silence for silence in silences}
    alerts = [replace(alert, silence=silent.get(alert.name)) for alert in found]
    return tuple(sorted(alerts, key=lambda alert: (alert.silence is not None, _ORDER.index(alert.severity))))


def alert_marks(history: SourceReading) -> list[Mark]:
    """The beginnings of the conditions of rules. The first known instant is no beginning."""
    marks: list[Mark] = []
    known_s = _known_from_s(history)
    for condition, rule in _rules(history):
        series, held = history[condition], _held(history[condition])
        changes = zip(series.times_s[1:], pairwise(held), strict=False)
        first_s = known_s + needed_s(condition)
        begun_s = [time_s for time_s, (before, now) in changes if now and not before and time_s > first_s]
        marks += [Mark(time_s, rule.name.removeprefix("Headway"), "alert") for time_s in begun_s]
    return marks


def _rules(reading: SourceReading) -> list[tuple[Expression, Rule]]:
    return [(asked, rule) for asked, rule in _SHOWN.items() if len(reading.instances) > 1 or not rule.of_several]


def _held(series: Series) -> list[bool]:
    """Whether a condition held at each instant, for whichever server and label."""
    return [any(point is not None for point in column) for column in zip(*series.lines.values(), strict=True)]


def _known_from_s(reading: SourceReading) -> float:
    """The first instant of which anything is known: before it a condition that does not hold is only not known.

    Where that is the first instant of the reading, the source has measured before as well.
    """
    for expression in (panels.READY, panels.PRESETS_SEEN, panels.ENGINE_STATES_SEEN):
        series = reading.series.get(expression)
        if series is not None and series.lines:
            columns = zip(series.times_s, zip(*series.lines.values(), strict=True), strict=False)
            known_s = next((time_s for time_s, column in columns if any(point is not None for point in column)), -inf)
            return known_s if known_s > series.times_s[0] else -inf
    return -inf


def _begun(reading: SourceReading, condition: Expression) -> tuple[float | None, bool]:
    """When a condition that holds now began to hold, and whether that was seen."""
    series, known_s = reading[condition], _known_from_s(reading) + needed_s(condition)
    began_s = None
    for time_s, holds in zip(reversed(series.times_s), reversed(_held(series)), strict=False):
        if began_s is not None and time_s < known_s:
            return began_s, False
        if not holds:
            return began_s, began_s is not None
        began_s = time_s
    return began_s, False


def _silent_servers(reading: SourceReading) -> Iterator[Alert]:
    """An alert for each of several servers that has answered and does so no more."""
    down = Alert(DOWN.name, DOWN.severity, "", fires_at=DOWN.fires, action=DOWN.action)
    for name, found in away(reading, reading.end_s).items():
        health = reading.instances[name]
        if len(reading.instances) > 1 and found.state is State.DOWN and health.last_ok_s is not None:
            yield replace(down, text=f"{name}: {DOWN.text}", since_s=health.failing_since_s, seen=True)


def _holding(reading: SourceReading, history: SourceReading | None) -> Iterator[Alert]:
    """An alert for each rule that holds, with the words of its largest value; of several servers, of which one."""
    for condition, rule in _rules(reading):
        values = {key: line[-1] for key, line in reading[condition].lines.items() if line and line[-1] is not None}
        if not values:
            continue
        worst, value = max(values.items(), key=lambda item: item[1] or 0.0)
        labels = dict(zip(condition.by, worst, strict=True))
        server = f"{labels.get(INSTANCE)}: " if len(reading.instances) > 1 and labels.get(INSTANCE) else ""
        more = f" (and {len(values) - 1} more)" if len(values) > 1 else ""
        began_s, seen = _begun(reading, condition)
        if not seen and history is not None:
            began_s, seen = min((_begun(history, condition), (began_s, seen)), key=lambda one: one[0] or inf)
        yield Alert(
            rule.name,
            rule.severity,
            f"{server}{rule.says(labels, value or 0.0)}{more}",
            began_s,
            seen,
            of=labels.get(CLASS, ""),
            value=written(value, rule.unit) if "{value}" in rule.text else "",
            fires_at=rule.fires_at,
            action=rule.action,
        )
