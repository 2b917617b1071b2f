"""All series of a page as CSV: a row for each instant, a column for each line, in base units."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from headway_dashboard.analysis.catalogue.panels import Line, Panel
from headway_dashboard.analysis.charts.drawn_lines import line_name, ordered
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.model import Point, Series
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.units import Unit

_UNITS: Mapping[Unit, str] = {"count": "", "per_s": "1/s", "seconds": "s", "bytes": "bytes", "ratio": "ratio"}

Column = tuple[str, Mapping[float, Point]]


def series_csv(panels: Iterable[Panel], reading: SourceReading) -> str:
    """The text; times are in UTC, and a point that was not measured is left empty."""
    columns = [column for panel in panels for column in _columns(panel, reading)]
    instants = sorted({time_s for _, points in columns for time_s in points})
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["time (UTC)", *(title for title, _ in columns)])
    for time_s in instants:
        points = (found.get(time_s) for _, found in columns)
        writer.writerow([_time(time_s), *("" if point is None else f"{point:.6g}" for point in points)])
    return out.getvalue()


def _columns(panel: Panel, reading: SourceReading) -> Iterator[Column]:
    for line in panel.lines:
        yield from _of_line(panel, line, reading[line.expression])
    if panel.across is not None:
        yield _title(panel.title, panel.across.title, "count"), _points(reading, panel.across.expression)


def _of_line(panel: Panel, line: Line, series: Series) -> Iterator[Column]:
    heat = line.kind == "heat"
    for labels in sorted(series.lines, key=lambda labels: float(labels[-1])) if heat else ordered(series):
        name = f"at most {labels[-1]}" if heat else line_name(line, labels)
        title = _title(panel.title, name, "count" if heat else panel.unit)
        yield title, dict(zip(series.times_s, series.lines[labels], strict=True))


def _points(reading: SourceReading, expression: Expression) -> Mapping[float, Point]:
    series = reading[expression]
    return dict(zip(series.times_s, series.line(), strict=False))


def _title(title: str, name: str, unit: Unit) -> str:
    whole = f"{title}: {name}" if name else title
    return f"{whole} [{_UNITS[unit]}]" if _UNITS[unit] else whole


def _time(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
