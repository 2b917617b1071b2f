"""Several servers watched together: their names, the expressions for one or for each, and how well they answer.

A server's name is that of Prometheus' label ``instance``: its host and port. Direct scrapes have the same label, so
that one expression means the same from both sources.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import urlsplit

from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.metric import INSTANCE as INSTANCE  # also the name of the choice in the address
from headway_dashboard.analysis.queries.metric import by_instance as by_instance
from headway_dashboard.analysis.queries.metric import with_metrics
from headway_dashboard.analysis.queries.model import Series
from headway_dashboard.analysis.queries.reading import Health, SourceReading
from headway_dashboard.analysis.server.condition import Activity, Condition, condition

#: The choice of all servers together.
ALL_INSTANCES = "all"


def instance_name(url: str) -> str:
    """Host and port of an address, and its path where it has one."""
    parts = urlsplit(url)
    return f"{parts.netloc}{parts.path}".rstrip("/") or url


def of_instances(expression: Expression, names: tuple[str, ...]) -> Expression:
    """The expression over these servers only. No names mean all of them."""
    return with_metrics(expression, lambda metric: metric.only(INSTANCE, names)) if names else expression


def health_of_all(healths: Iterable[Health]) -> Health:
    """The health of the servers together: that of one that answers, else that of the last that did."""
    every = list(healths)
    if len(every) == 1:
        return every[0]
    last_ok_s = max((health.last_ok_s for health in every if health.last_ok_s is not None), default=None)
    failing = [health for health in every if health.trouble is not None]
    if not every or len(failing) < len(every):
        return Health(last_ok_s=last_ok_s)
    details = dict.fromkeys(health.detail for health in failing)
    return Health(
        last_ok_s=last_ok_s,
        failures=min(health.failures for health in failing),
        trouble="refused" if all(health.trouble == "refused" for health in failing) else "silent",
        detail=next(iter(details)) if len(details) == 1 else f"none of the {len(every)} servers answers",
        failing_since_s=max(health.failing_since_s or 0.0 for health in failing),
    )


def condition_of_one(reading: SourceReading, name: str, now_s: float, activity: Activity | None = None) -> Condition:
    """The condition of a single server."""
    health = reading.instances.get(name, Health())
    return condition(health, Activity() if activity is None else activity, now_s, reading.interval_s)


def away(reading: SourceReading, now_s: float) -> dict[str, Condition]:
    """The servers whose figures are not current, with their condition; those not asked yet are left out."""
    found = {name: condition_of_one(reading, name, now_s) for name in reading.instances}
    return {
        name: series
        for name, series in found.items()
        if not series.current and (reading.instances[name].failures or reading.instances[name].last_ok_s is not None)
    }


def away_words(reading: SourceReading, now_s: float) -> str:
    """The number of servers that do not answer; empty where all do, or none, or where there is only one."""
    missing, whole = len(away(reading, now_s)), len(reading.instances)
    if whole < 2 or not 0 < missing < whole:
        return ""
    return f"{missing} of {whole} servers {'does' if missing == 1 else 'do'} not answer."


def away_details(reading: SourceReading, now_s: float) -> str:
    """The servers that do not answer, and why; empty where there is nothing to say."""
    if not away_words(reading, now_s):
        return ""
    reasons = (f"{name} ({reading.instances[name].detail or 'no new figures'})" for name in away(reading, now_s))
    return f"{away_words(reading, now_s)} Left out of all figures: {', '.join(reasons)}."


def reading_of_one(reading: SourceReading, expressions: Iterable[Expression], name: str) -> SourceReading:
    """The part of a reading for one server, under the plain expressions; it must hold them by instance."""
    series = {expression: _lines_of(reading[by_instance(expression)], name) for expression in expressions}
    health = reading.instances.get(name, Health())
    return replace(reading, series=series, health=health, instances={name: health}, note="")


def _lines_of(series: Series, name: str) -> Series:
    return Series(series.times_s, {labels[1:]: line for labels, line in series.lines.items() if labels[0] == name})
