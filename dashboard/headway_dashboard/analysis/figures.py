"""The plotly figure of a panel's reading.

Pure: a panel and its series in, a plain figure dictionary out. The x values are left out of the traces (every trace has
the same), and colours of text and grid are left to the browser, which knows the theme.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headway_dashboard.analysis import palette
from headway_dashboard.analysis.model import Labels, Mark, Point, Series, newest, value_of
from headway_dashboard.analysis.panels import Line, Panel
from headway_dashboard.analysis.reading import Reading
from headway_dashboard.analysis.units import Scale, scale, written

CHART_HEIGHT_PX = 280
#: Names stand in two columns at worst; rows beyond these make the chart higher, so that none is cut off.
_LEGEND_ROWS = 2
_LEGEND_ROW_PX = 19
#: Up to so many, things are counted one by one: there is no half of them on the axis.
_FEW = 5


@dataclass(frozen=True, slots=True)
class Figure:
    """What the browser needs for one chart. ``summary`` says in words what the chart shows."""

    times_ms: list[int]
    traces: list[dict[str, Any]]
    layout: dict[str, Any]
    summary: str


@dataclass(frozen=True, slots=True)
class _Drawn:
    line: Line
    name: str
    colour: str
    points: Sequence[Point]
    of_many: bool  # one of the lines that an expression has for each value of a label


def figure(panel: Panel, reading: Reading, marks: Sequence[Mark] = ()) -> Figure:
    """The panel's chart over the range of the reading."""
    drawn, times_s = _drawn(panel, reading)
    shown = [one for one in drawn if any(point is not None and point != 0 for point in one.points)]
    lines = shown if panel.quiet else [one for one in drawn if any(point is not None for point in one.points)]
    measured = any(point is not None for one in drawn for point in one.points)
    chosen = scale(panel.unit, [point for one in lines for point in one.points])
    empty = "" if lines else _emptiness(panel, reading, measured)
    return Figure(
        times_ms=[round(time_s * 1000) for time_s in times_s],
        traces=[_trace(one, chosen, panel.steps) for one in lines],
        layout=_layout(panel, reading, chosen, marks, empty, lines),
        summary=_summary(panel, lines, empty),
    )


def _emptiness(panel: Panel, reading: Reading, measured: bool) -> str:
    """Why a chart shows nothing: all zero, nothing happened, or nothing known. Never drawn as a line at zero."""
    if measured and panel.quiet:
        return panel.quiet
    reached = reading.health.last_ok_s is not None and reading.health.trouble is None
    return panel.idle if reached and panel.idle else "no data in this time"


def _drawn(panel: Panel, reading: Reading) -> tuple[list[_Drawn], tuple[float, ...]]:
    drawn: list[_Drawn] = []
    times_s: tuple[float, ...] = ()
    for line in panel.lines:
        series = reading[line.expression]
        times_s = series.times_s or times_s
        drawn += [
            _Drawn(line, _name(line, labels), _colour(line, labels), series.lines[labels], bool(labels))
            for labels in _ordered(series)
        ]
    return drawn, times_s


def _ordered(series: Series) -> list[Labels]:
    order = palette.class_order({value_of(labels) for labels in series.lines if labels})
    return sorted(series.lines, key=lambda labels: order.index(value_of(labels)) if labels else 0)


def _name(line: Line, labels: Labels) -> str:
    if not labels:
        return line.name
    value = value_of(labels)
    return line.words(value) if line.words else value


def _colour(line: Line, labels: Labels) -> str:
    return line.colours(value_of(labels)) if labels and line.colours else line.colour


def _trace(one: _Drawn, chosen: Scale, steps: Sequence[str]) -> dict[str, Any]:
    y = [None if point is None else float(f"{point * chosen.factor:.4g}") for point in one.points]
    hover = f"%{{y:,.4~r}}{chosen.suffix}"
    trace: dict[str, Any] = {"name": one.name, "y": y, "hovertemplate": hover}
    if steps:
        trace |= {"text": [_step(steps, point) for point in one.points], "hovertemplate": "%{text}"}
    if one.line.kind == "state":
        y = [1.0 if point else None for point in one.points]
        hover = f"{one.name}<extra></extra>"
        return {
            "name": one.name,
            "y": y,
            "hovertemplate": hover,
            "type": "bar",
            "marker": {"color": one.colour, "line": {"width": 0}},
        }
    if one.line.kind == "bar":
        return {**trace, "type": "bar", "marker": {"color": one.colour, "line": {"width": 0}}}
    return {
        **trace,
        "type": "scatter",
        "mode": "lines",
        "connectgaps": False,
        "line": {
            "color": one.colour,
            "width": 2,
            "dash": one.line.dash,
            "shape": "hv" if one.line.kind == "step" else "linear",
        },
    }


def _layout(
    panel: Panel, reading: Reading, chosen: Scale, marks: Sequence[Mark], empty: str, lines: Sequence[_Drawn]
) -> dict[str, Any]:
    start_s = reading.end_s - reading.range_s
    y_axis: dict[str, Any] = {"rangemode": "tozero", "ticksuffix": chosen.suffix, "nticks": 5}
    largest = max((point for one in lines for point in one.points if point is not None), default=0.0)
    if panel.unit == "count" and largest <= _FEW:
        y_axis |= {"dtick": 1}
    if panel.ceiling is not None and not empty:
        y_axis |= {"range": [0, panel.ceiling * chosen.factor * 1.02]}
    elif empty:
        y_axis |= {"range": [0, 1], "showticklabels": False, "showgrid": False, "zeroline": False}
    elif panel.steps:
        numbers = list(range(len(panel.steps)))
        y_axis |= {"range": [-0.2, numbers[-1] + 0.2], "tickvals": numbers, "ticktext": list(panel.steps)}
    elif any(one.line.kind == "state" for one in lines):
        y_axis |= {"range": [0, 1], "showticklabels": False, "showgrid": False}
    notes = [_note(mark, index) for index, mark in enumerate(marks) if mark.time_s >= start_s]
    if empty:
        notes.append({"text": empty, "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5, "showarrow": False})
    return {
        "height": CHART_HEIGHT_PX + _LEGEND_ROW_PX * max(0, math.ceil(len(lines) / 2) - _LEGEND_ROWS),
        "barmode": "stack",
        "bargap": 0,
        "hovermode": "x unified",
        "showlegend": len(lines) > 1 or any(one.of_many for one in lines),
        "uirevision": panel.id,
        "xaxis": {"type": "date", "range": [round(start_s * 1000), round(reading.end_s * 1000)]},
        "yaxis": y_axis,
        "shapes": [_rule(mark) for mark in marks if mark.time_s >= start_s],
        "annotations": notes,
    }


def _rule(mark: Mark) -> dict[str, Any]:
    at_ms = round(mark.time_s * 1000)
    line = {"color": palette.GREY, "width": 1, "dash": "dot"}
    return {"type": "line", "x0": at_ms, "x1": at_ms, "y0": 0, "y1": 1, "yref": "paper", "layer": "below", "line": line}


def _note(mark: Mark, index: int) -> dict[str, Any]:
    """The preset's name at the top of its line; neighbours take turns on two rows."""
    return {
        "text": mark.label,
        "x": round(mark.time_s * 1000),
        "y": 1.0,
        "yref": "paper",
        "yanchor": "bottom",
        "yshift": 11 * (index % 2),
        "showarrow": False,
        "font": {"size": 10, "color": palette.GREY},
    }


def _summary(panel: Panel, drawn: Sequence[_Drawn], empty: str) -> str:
    if empty:
        return f"{panel.title}: {empty}."
    parts = [f"{one.name or panel.title} {_value(panel, newest(one.points))}" for one in drawn]
    return f"{panel.title}. Newest values: {', '.join(parts)}."


def _value(panel: Panel, point: Point) -> str:
    """A value as the axis names it."""
    return (_step(panel.steps, point) if panel.steps else "") or written(point, panel.unit)


def _step(steps: Sequence[str], point: Point) -> str:
    return steps[int(point)] if point is not None and 0 <= point < len(steps) else ""
