"""The arrivals, departures and restarts of servers: read from ``up`` and from the start of their processes.

A time in which nothing at all is known is a gap of the source of the figures, and no event of a server. Our knowledge
begins with the first known value: a server that is there from then on has not appeared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from itertools import compress

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.catalogue.fleet_panels import STARTED_S, UP
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.metric import by_instance
from headway_dashboard.analysis.queries.model import Mark, Point
from headway_dashboard.analysis.queries.reading import SourceReading, stale_after_s

_UP, _STARTED_S, _READY = by_instance(UP), by_instance(STARTED_S), by_instance(panels.READY)
EXPRESSIONS: tuple[Expression, ...] = (_UP, _STARTED_S, _READY)
APPEARED, GONE, RESTARTED = "appeared", "gone", "restarted"
#: The servers of one source are first scraped within this time of each other.
_FIRST_SCRAPES_S = 10.0


def scale_events(history: SourceReading) -> list[Mark]:
    """The events of all servers in the order of their times; ``history`` holds ``EXPRESSIONS``.

    Prometheus has ``up`` of everything that it scrapes: only what has Headway's metrics is a server. A server is gone
    when its figures are no longer current: scrapes that fail for a shorter time are no event.
    """
    up, started_s = history[_UP], history[_STARTED_S]
    known = [any(point is not None for point in column) for column in zip(*up.lines.values(), strict=True)]
    times_s = [time_s for time_s, point in zip(up.times_s, known, strict=False) if point]
    step_s = up.times_s[1] - up.times_s[0] if len(up.times_s) > 1 else 0.0
    least_s = stale_after_s(history.interval_s) - step_s  # the last instant stands for the step after it
    found: list[Mark] = []
    for name in {*history.instances, *(labels[0] for labels in history[_READY].lines)}:
        points = _of(up.line(name), known)
        starts_s = _of(started_s.line(name), known) or [None] * len(points)
        events = _events(list(zip(times_s, points, starts_s, strict=False)), least_s)
        found += [Mark(time_s, what, "server", name) for time_s, what in events]
    return sorted(found, key=lambda event: (event.time_s, event.of))


def _of(line: Sequence[Point], known: Sequence[bool]) -> list[Point]:
    """The points of the instants at which the source knew anything."""
    return list(compress(line, known))


def _events(instants: Sequence[tuple[float, Point, Point]], least_s: float) -> Iterator[tuple[float, str]]:
    """The events of one server, from its instants: the time, ``up``, and the start of the process."""
    seen = was_up = False
    last_start_s: Point = None
    away_s: float | None = None
    for time_s, point, start_s in instants:
        new = start_s is not None and last_start_s is not None and start_s != last_start_s
        if point:
            if new:
                yield time_s, RESTARTED
            elif not was_up and (seen or time_s - instants[0][0] > _FIRST_SCRAPES_S):
                yield time_s, APPEARED
            seen = was_up = True
            away_s, last_start_s = None, last_start_s if start_s is None else start_s
            continue
        seen = seen or point is not None or time_s - instants[0][0] > _FIRST_SCRAPES_S
        away_s = time_s if away_s is None else away_s
        if was_up and time_s - away_s >= least_s:
            was_up = False
            yield away_s, GONE


def event_rows(events: Sequence[Mark], zone: tzinfo, most: int = 10) -> list[dict[str, str]]:
    """The last events, the newest first, with their times on the clock of a zone."""
    return [
        {
            "When": f"{datetime.fromtimestamp(event.time_s, zone):%Y-%m-%d %H:%M:%S}",
            "Server": event.of,
            "Event": event.label,
        }
        for event in reversed(events[-most:])
    ]
