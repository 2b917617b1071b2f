"""The frame of all charts: the figure that the browser gets, its height, its time axis, and the marks on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headway_dashboard.analysis.catalogue.panels import Panel
from headway_dashboard.analysis.charts.marks import MarkGroup, inside, merged
from headway_dashboard.analysis.queries.model import Mark
from headway_dashboard.analysis.queries.reading import SourceReading

CHART_HEIGHT_PX = 280
#: Words that stand on their middle nearer to an end of a chart than this part of it would be cut.
_NEAR_END = 0.12


@dataclass(frozen=True, slots=True)
class Figure:
    """The data that the browser needs for a chart.

    A trace without ``x`` is over ``times_ms``. ``summary`` says in words what the chart shows; ``empty`` says why it
    shows nothing, and is empty where it shows something.
    """

    times_ms: list[int]
    traces: list[dict[str, Any]]
    layout: dict[str, Any]
    summary: str
    empty: str = ""


def milliseconds(times_s: Sequence[float]) -> list[int]:
    """Instants as plotly has them."""
    return [round(time_s * 1000) for time_s in times_s]


def emptiness(panel: Panel, reading: SourceReading, measured: bool) -> str:
    """The reason why a chart is empty: all zero, nothing happened, or nothing known. Never drawn as a line at zero."""
    if measured and panel.quiet:
        return panel.quiet
    reached = reading.health.last_ok_s is not None and reading.health.trouble is None
    return panel.idle if reached and panel.idle else "no data in this time"


def over_time(panel: Panel, reading: SourceReading, marks: Sequence[Mark]) -> dict[str, Any]:
    """The layout of a chart over time: the whole range of the reading, whatever was measured in it, and the marks."""
    groups = merged(inside(marks, reading), reading.range_s)
    return {
        **plain_layout(panel),
        "xaxis": {"type": "date", "range": milliseconds((reading.end_s - reading.range_s, reading.end_s))},
        "shapes": [_rule(group) for group in groups],
        "annotations": [_note(group, index, reading) for index, group in enumerate(groups)],
    }


def marks_words(marks: Sequence[Mark], reading: SourceReading) -> str:
    """The marks of a chart as text for screen readers, the newest last; empty without marks."""
    found = [words for group in merged(inside(marks, reading), reading.range_s) for words in group.words]
    return f" Marks: {', '.join(found)}." if found else ""


def plain_layout(panel: Panel) -> dict[str, Any]:
    """The layout of any chart."""
    return {"height": CHART_HEIGHT_PX, "uirevision": panel.id, "shapes": [], "annotations": []}


def _rule(group: MarkGroup) -> dict[str, Any]:
    at_ms = round(group.time_s * 1000)
    line = {"color": group.look.colour, "width": 1, "dash": group.look.dash}
    return {"type": "line", "x0": at_ms, "x1": at_ms, "y0": 0, "y1": 1, "yref": "paper", "layer": "above", "line": line}


def _note(group: MarkGroup, index: int, reading: SourceReading) -> dict[str, Any]:
    """Words above its line, in two rows by turns, and each mark in full where the pointer is. None is cut at an end."""
    place = 1 - (reading.end_s - group.time_s) / reading.range_s if reading.range_s else 0.5
    return {
        "xanchor": "left" if place < _NEAR_END else "right" if place > 1 - _NEAR_END else "center",
        "text": group.label,
        "hovertext": "<br>".join(group.words),
        "x": round(group.time_s * 1000),
        "y": 1.0,
        "yref": "paper",
        "yanchor": "bottom",
        "yshift": 11 * (index % 2),
        "showarrow": False,
        "font": {"size": 10},
    }
