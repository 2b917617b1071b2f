"""The plotly figure of a panel's reading.

Pure: a panel and its series in, a plain figure dictionary out. The x values of lines are left out of the traces (every
line has the same), and colours of text and grid are left to the browser, which knows the theme.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from headway_dashboard.analysis.catalogue.panels import Panel
from headway_dashboard.analysis.charts.chart_frame import Figure as Figure  # the pages know it by this module
from headway_dashboard.analysis.charts.chart_frame import emptiness, marks_words, milliseconds, over_time
from headway_dashboard.analysis.charts.comparison import compared
from headway_dashboard.analysis.charts.drawn_lines import Drawn, drawn_lines
from headway_dashboard.analysis.charts.heat_map import heat_map
from headway_dashboard.analysis.charts.scatter import scatter
from headway_dashboard.analysis.queries.model import Mark, Point, newest
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.units import Scale, scale, written

#: Names stand in two columns at worst; rows beyond these make the chart higher, so that none is cut off.
_LEGEND_ROWS = 2
_LEGEND_ROW_PX = 19
#: Up to so many, things are counted one by one: there is no half of them on the axis.
_FEW = 5
#: A reference above so many times the largest measurement is named at the upper edge: it would press the lines flat.
FAR = 3.0
_EDGE_ROW_PX = 13
_EDGE_ROW_PART = 0.1  # of the height of the lines


def figure(
    panel: Panel, reading: SourceReading, marks: Sequence[Mark] = (), before: SourceReading | None = None
) -> Figure:
    """The panel's chart over the range of the reading, its lines compared with those of ``before`` if it is given."""
    if panel.across is not None:
        return scatter(panel, panel.across, reading)
    if panel.lines[0].kind == "heat":
        return heat_map(panel, reading, marks)
    every, times_s = drawn_lines(panel, reading)
    results = [result for result in every if not result.line.reference]
    shown = [result for result in results if (result.happened if panel.quiet else result.measured)]
    empty = "" if shown else emptiness(panel, reading, any(result.measured for result in results))
    references = [result for result in every if shown and result.line.reference and result.measured]
    far = [] if panel.ceiling is not None else [result for result in references if _is_far(result, shown)]
    lines = [*shown, *(result for result in references if result not in far)]
    chosen = scale(panel.unit, [point for result in shown for point in result.points])
    earlier = compared(panel, reading, before, chosen) if lines and before is not None else []
    return Figure(
        times_ms=milliseconds(times_s),
        traces=[*earlier, *(_trace(line, chosen, panel.steps) for line in lines)],
        layout=_layout(
            panel, reading, chosen, marks, empty, lines, far, top=max(_largest(lines), _highest(earlier, chosen))
        ),
        summary=_summary(panel, [*lines, *far], empty) + marks_words(marks, reading),
        empty=empty,
    )


def _trace(one: Drawn, chosen: Scale, steps: Sequence[str]) -> dict[str, Any]:
    if one.line.kind == "state":
        return _state(one)
    y = [None if point is None else float(f"{point * chosen.factor:.4g}") for point in one.points]
    name, whole = (one.short, f"<extra>{one.name}</extra>") if one.short else (one.name, "")
    trace: dict[str, Any] = {"name": name, "y": y, "hovertemplate": f"%{{y:,.4~r}}{chosen.suffix}{whole}"}
    if steps:
        trace |= {"text": [_step(steps, point) for point in one.points], "hovertemplate": "%{text}"}
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


def _state(one: Drawn) -> dict[str, Any]:
    """A bar of colour over the whole height while the value is not 0."""
    return {
        "name": one.name,
        "y": [1.0 if point else None for point in one.points],
        "hovertemplate": f"{one.name}<extra></extra>",
        "type": "bar",
        "marker": {"color": one.colour, "line": {"width": 0}},
    }


def _layout(
    panel: Panel,
    reading: SourceReading,
    chosen: Scale,
    marks: Sequence[Mark],
    empty: str,
    lines: Sequence[Drawn],
    far: Sequence[Drawn],
    top: float,
) -> dict[str, Any]:
    layout = over_time(panel, reading, marks)
    layout["annotations"] += [_at_edge(result, row) for row, result in enumerate(far)]
    if empty:
        text = {"text": empty, "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5, "showarrow": False}
        layout["annotations"].append(text)
    return layout | {
        "height": layout["height"] + _LEGEND_ROW_PX * max(0, math.ceil(len(lines) / 2) - _LEGEND_ROWS),
        "barmode": "stack",
        "bargap": 0,
        "hovermode": "x unified",
        "showlegend": bool(lines),
        "yaxis": _below_names(_y_axis(panel, chosen, lines, top), chosen, top, len(far) if lines else 0),
    }


def _at_edge(one: Drawn, row: int) -> dict[str, Any]:
    """The name of a reference above the chart, at its upper right corner; several stand under each other."""
    return {
        "text": f"\u2191 {one.name}",
        "xref": "paper",
        "yref": "paper",
        "x": 1.0,
        "y": 1.0,
        "xanchor": "right",
        "yanchor": "top",
        "yshift": -_EDGE_ROW_PX * row,
        "showarrow": False,
        "font": {"size": 10, "color": one.colour},
    }


def _below_names(axis: dict[str, Any], chosen: Scale, top: float, names: int) -> dict[str, Any]:
    """An axis up to ``top`` that leaves the upper edge to the names that stand there."""
    if not names:
        return axis
    return axis | {"range": [0, top * chosen.factor * (1.05 + _EDGE_ROW_PART * names)]}


def _is_far(one: Drawn, measured: Sequence[Drawn]) -> bool:
    top = _largest(measured)
    return top > 0 and _largest([one]) > FAR * top


def _highest(traces: Sequence[dict[str, Any]], chosen: Scale) -> float:
    """The largest value of drawn traces, in the unit of the panel."""
    return max((y for trace in traces for y in trace["y"] if y is not None), default=0.0) / chosen.factor


def _y_axis(panel: Panel, chosen: Scale, lines: Sequence[Drawn], top: float) -> dict[str, Any]:
    axis: dict[str, Any] = {"rangemode": "tozero", "ticksuffix": chosen.suffix, "nticks": 5}
    kinds = {line.line.kind for line in lines}
    bare = {"showticklabels": False, "showgrid": False}
    if not lines:
        return axis | {"range": [0, 1], **bare, "zeroline": False}
    if panel.ceiling is not None:
        return axis | {"range": [0, panel.ceiling * chosen.factor * 1.02]}
    if panel.steps:
        numbers = list(range(len(panel.steps)))
        return axis | {"range": [-0.2, numbers[-1] + 0.2], "tickvals": numbers, "ticktext": list(panel.steps)}
    if "state" in kinds:
        return axis | {"range": [0, 1], **bare}
    if panel.unit == "count" and _largest(lines) <= _FEW:
        axis |= {"dtick": 1}
    if any(line.line.reference for line in lines):
        axis |= {"range": [0, (top or 1.0) * chosen.factor * 1.05]}
    return axis


def _largest(lines: Sequence[Drawn]) -> float:
    """The largest value of lines; bars stand on each other."""
    stacked = [line.points for line in lines if line.line.kind == "bar"]
    heights = [math.fsum(point or 0.0 for point in column) for column in zip(*stacked, strict=True)]
    return max((*heights, *(point for line in lines for point in line.points if point is not None)), default=0.0)


def _summary(panel: Panel, drawn: Sequence[Drawn], empty: str) -> str:
    if empty:
        return f"{panel.title}: {empty}."
    parts = [f"{line.name or panel.title} {_value(panel, newest(line.points))}" for line in drawn]
    return f"{panel.title}. Newest values: {', '.join(parts)}."


def _value(panel: Panel, point: Point) -> str:
    """A value as the axis names it."""
    return (_step(panel.steps, point) if panel.steps else "") or written(point, panel.unit)


def _step(steps: Sequence[str], point: Point) -> str:
    return steps[int(point)] if point is not None and 0 <= point < len(steps) else ""
