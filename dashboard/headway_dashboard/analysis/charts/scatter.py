"""Scatter charts: two quantities against each other, a dot for each instant at which both were measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headway_dashboard.analysis.catalogue.panels import Across, Panel
from headway_dashboard.analysis.charts.chart_frame import Figure, emptiness, plain_layout
from headway_dashboard.analysis.charts.drawn_lines import Drawn, drawn_lines
from headway_dashboard.analysis.queries.model import Point
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.units import Scale, compact, scale, written

Pair = tuple[float, float]


def scatter(panel: Panel, across: Across, reading: SourceReading) -> Figure:
    """The chart of a panel with ``across``. Old dots are faint, and the newest one is the darkest."""
    x = reading[across.expression]
    at = dict(zip(x.times_s, x.line(), strict=False))
    lines, times_s = drawn_lines(panel, reading)
    drawn = [(line, found) for line in lines if (found := _pairs(line, times_s, at))]
    empty = "" if drawn else emptiness(panel, reading, False)
    chosen = scale(panel.unit, [y for _, found in drawn for _, y in found])
    layout = plain_layout(panel) | {
        "hovermode": "closest",
        "showlegend": bool(drawn),
        "xaxis": {"type": "linear", "rangemode": "tozero", "fixedrange": True, "title": {"text": across.title}},
        "yaxis": {"rangemode": "tozero", "ticksuffix": chosen.suffix, "nticks": 5},
    }
    traces = [_trace(line, found, chosen) for line, found in drawn]
    return Figure([], traces, layout, _summary(panel, across, drawn, empty), empty)


def _pairs(one: Drawn, times_s: tuple[float, ...], at: Mapping[float, Point]) -> list[Pair]:
    both = ((at.get(time_s), point) for time_s, point in zip(times_s, one.points, strict=True))
    return [(x, y) for x, y in both if x is not None and y is not None]


def _trace(one: Drawn, found: Sequence[Pair], chosen: Scale) -> dict[str, Any]:
    ages = [0.25 + 0.75 * (number + 1) / len(found) for number in range(len(found))]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": one.name,
        "x": [float(f"{x:.4g}") for x, _ in found],
        "y": [float(f"{y * chosen.factor:.4g}") for _, y in found],
        "marker": {"color": one.colour, "size": 6, "opacity": [round(age, 2) for age in ages]},
        "hovertemplate": f"%{{y:,.4~r}}{chosen.suffix} at %{{x:,.4~r}}<extra></extra>",
    }


def _summary(panel: Panel, across: Across, drawn: Sequence[tuple[Drawn, Sequence[Pair]]], empty: str) -> str:
    if empty:
        return f"{panel.title}: {empty}."
    newest = [(line.name, *found[-1]) for line, found in drawn]
    parts = [f"{name} {written(y, panel.unit)} at {compact(x)}" for name, x, y in newest]
    return f"{panel.title}, over {across.title}. Newest values: {', '.join(parts)}."
