"""Heat maps: how many observations fell into each bucket of a histogram, over time.

A row is a bucket, so that the rows are as fine as the histogram, closer together at small values. Each cell counts the
observations of one look back; a cell without any is left blank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from headway_dashboard.analysis.catalogue import palette
from headway_dashboard.analysis.catalogue.panels import Panel
from headway_dashboard.analysis.charts.chart_frame import Figure, emptiness, marks_words, milliseconds, over_time
from headway_dashboard.analysis.queries.model import Mark, Point, Series, grid
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.units import Unit, compact, duration, written

#: At most so many columns: more would only be finer than the screen.
_COLUMNS = 60
#: Below the chart, as a legend is: beside it, the time axis would end before those of the other charts.
_COLOUR_BAR: dict[str, Any] = {
    "orientation": "h",
    "x": 0,
    "xanchor": "left",
    "y": -0.14,
    "yanchor": "top",
    "len": 0.6,
    "thickness": 8,
    "outlinewidth": 0,
}
_MIN_COUNT = 1e-9


def heat_map(panel: Panel, reading: SourceReading, marks: Sequence[Mark]) -> Figure:
    """The chart of a panel with one expression of buckets."""
    series = reading[panel.lines[0].expression]
    rows = bucket_rows(series)
    bounds = list(rows)
    used = [at for at, bound in enumerate(bounds) if any(rows[bound])]
    measured = any(point is not None for row in rows.values() for point in row)
    empty = "" if used else emptiness(panel, reading, measured)
    step = max(1, math.ceil(len(series.times_s) / _COLUMNS))
    columns = slice((len(series.times_s) - 1) % step, None, step)  # the newest instant is the last column
    kept = range(used[0], used[-1] + 1) if used else range(0)
    names = [_row_name(bounds[at - 1] if at else 0.0, bounds[at], panel.unit) for at in kept]
    z = [[_cell(point) for point in rows[bounds[at]][columns]] for at in kept]
    look_back = duration(_look_back_s(reading))
    layout = over_time(panel, reading, marks) | {"hovermode": "closest", "showlegend": False}
    layout["yaxis"] = {"type": "category", "nticks": 8, "showgrid": False}
    trace = _trace(milliseconds(series.times_s[columns]), names, z, look_back)
    newest = [row[-1] for row in z]
    summary = _summary(panel, names, newest, empty, look_back) + marks_words(marks, reading)
    return Figure([], [trace] if used else [], layout, summary, empty)


def bucket_rows(series: Series) -> Mapping[float, list[Point]]:
    """The observations of each bucket alone, by its upper bound; the lines of the series are cumulative."""
    cumulative = {float(labels[-1]): list(line) for labels, line in series.lines.items()}
    bounds = sorted(cumulative)
    below = [0.0] * len(series.times_s)  # the most at or below any bound so far: not every server has every bound
    rows: dict[float, list[Point]] = {}
    for bound in bounds:
        upto = cumulative[bound]
        rows[bound] = [
            None if point is None else max(0.0, point - before) for before, point in zip(below, upto, strict=True)
        ]
        below = [before if point is None else max(before, point) for before, point in zip(below, upto, strict=True)]
    return rows


def _cell(point: Point) -> Point:
    return None if point is None or point < _MIN_COUNT else float(f"{point:.3g}")


def _look_back_s(reading: SourceReading) -> float:
    """The time that a cell counts, as both sources look back."""
    window_s = grid(reading.end_s, reading.range_s, reading.interval_s).window_s
    return max(window_s, 2.5 * reading.interval_s)


def _row_name(lower: float, upper: float, unit: Unit) -> str:
    """A bucket by its upper bound, short enough to stand beside an axis; the row below has the lower one."""
    if math.isinf(upper):
        return f"> {written(lower, unit)}"
    if unit == "count":
        first = lower + 1
        return compact(upper) if first >= upper else f"{compact(first)}-{compact(upper)}"
    return f"≤ {written(upper, unit)}"


def _trace(times_ms: list[int], names: list[str], z: list[list[Point]], look_back: str) -> dict[str, Any]:
    return {
        "type": "heatmap",
        "name": "",
        "x": times_ms,
        "y": names,
        "z": z,
        "zmin": 0,
        "colorscale": [list(stop) for stop in palette.HEAT],
        "hoverongaps": False,
        "hovertemplate": f"%{{y}}: %{{z:,.3~r}} in {look_back}",
        "colorbar": _COLOUR_BAR | {"title": {"text": f"in {look_back}", "side": "right"}},
    }


def _summary(panel: Panel, names: Sequence[str], newest: Sequence[Point], empty: str, look_back: str) -> str:
    if empty:
        return f"{panel.title}: {empty}."
    counted = {name: count for name, count in zip(names, newest, strict=True) if count}
    if not counted:
        return f"{panel.title}. None in the last {look_back}."
    most = max(counted, key=lambda name: counted[name])
    whole = compact(math.fsum(counted.values()))
    return f"{panel.title}. In the last {look_back}: {whole}, most of them in the bucket {most}."
