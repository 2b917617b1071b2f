"""The alerts whose condition holds: the rules of ``catalogue.alerts``, evaluated for a page.

Prometheus notifies when a condition has held for a while; a page shows it at once. Whether a server answers at all is
known to the page by itself, so that the rules on ``up`` are left to Prometheus.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import get_args

from headway_dashboard.analysis.catalogue.alerts import RULES
from headway_dashboard.analysis.catalogue.alerts.availability import DOWN
from headway_dashboard.analysis.catalogue.alerts.rule import Rule, Severity
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.metric import INSTANCE
from headway_dashboard.analysis.queries.model import Mark
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.server.condition import Condition, State

_SHOWN: Mapping[Expression, Rule] = {rule.asked: rule for rule in RULES if rule.asked.metric.name != "up"}
#: The questions whose answers the alerts need.
EXPRESSIONS: tuple[Expression, ...] = tuple(_SHOWN)
_ORDER: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True, slots=True)
class Alert:
    """A rule whose condition holds: its name, how bad it is, and a sentence without its full stop."""

    name: str
    severity: Severity
    text: str


def alerts_of(reading: SourceReading, state: Condition) -> tuple[Alert, ...]:
    """The alerts that hold now, the worst first; none while the figures are old."""
    if state.state is State.DOWN:
        return (Alert(DOWN.name, DOWN.severity, DOWN.text),)
    found = _holding(reading) if state.current else ()
    return tuple(sorted(found, key=lambda alert: _ORDER.index(alert.severity)))


def alert_marks(history: SourceReading) -> list[Mark]:
    """The beginnings of the conditions of rules. The first known instant is no beginning."""
    marks: list[Mark] = []
    for condition, rule in _rules(history):
        series = history[condition]
        held = [any(point is not None for point in column) for column in zip(*series.lines.values(), strict=True)]
        changes = zip(series.times_s[1:], pairwise(held), strict=False)
        begun_s = [time_s for time_s, (before, now) in changes if now and not before]
        marks += [Mark(time_s, rule.name.removeprefix("Headway"), "alert") for time_s in begun_s]
    return marks


def _rules(reading: SourceReading) -> list[tuple[Expression, Rule]]:
    return [(asked, rule) for asked, rule in _SHOWN.items() if len(reading.instances) > 1 or not rule.of_several]


def _holding(reading: SourceReading) -> Iterator[Alert]:
    """An alert for each rule that holds, with the words of its largest value; of several servers, of which one."""
    for condition, rule in _rules(reading):
        values = {key: line[-1] for key, line in reading[condition].lines.items() if line and line[-1] is not None}
        if not values:
            continue
        worst, value = max(values.items(), key=lambda item: item[1] or 0.0)
        labels = dict(zip(condition.by, worst, strict=True))
        server = f"{labels.get(INSTANCE)}: " if len(reading.instances) > 1 and labels.get(INSTANCE) else ""
        more = f" (and {len(values) - 1} more)" if len(values) > 1 else ""
        yield Alert(rule.name, rule.severity, f"{server}{rule.says(labels, value or 0.0)}{more}")
