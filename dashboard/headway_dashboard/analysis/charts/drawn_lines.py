"""The lines of a panel as they are drawn: each with its name, its colour and its points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway_dashboard.analysis.catalogue import palette
from headway_dashboard.analysis.catalogue.panels import Line, Panel
from headway_dashboard.analysis.queries.model import Labels, Point, Series, newest, value_of
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.units import Unit, written

#: The longest value of a label in a legend: with the words around it a name still fits into a narrow chart.
_MOST_CHARS = 20


@dataclass(frozen=True, slots=True)
class Drawn:
    """A drawn line. ``short`` is its name in the legend where that has to be cut; empty where it need not."""

    line: Line
    name: str
    colour: str
    points: Sequence[Point]
    short: str = ""

    @property
    def measured(self) -> bool:
        """Whether the line has a point."""
        return any(point is not None for point in self.points)

    @property
    def happened(self) -> bool:
        """Whether the line has a point other than 0."""
        return any(point is not None and point != 0 for point in self.points)


def drawn_lines(panel: Panel, reading: SourceReading) -> tuple[list[Drawn], tuple[float, ...]]:
    """Every line of a panel, drawn or not, and the instants of their points; the constant bounds come last."""
    found: list[Drawn] = []
    times_s: tuple[float, ...] = ()
    for line in panel.lines:
        series = reading[line.expression]
        times_s = series.times_s or times_s
        found += [_drawn(line, labels, series.lines[labels], panel.unit) for labels in ordered(series)]
    return [*found, *_bounds(panel, len(times_s))], times_s


def ordered(series: Series) -> list[Labels]:
    """The labels of the lines in the order in which they are drawn."""
    order = palette.class_order({value_of(labels) for labels in series.lines if labels})
    return sorted(series.lines, key=lambda labels: order.index(value_of(labels)) if labels else 0)


def line_name(line: Line, labels: Labels) -> str:
    """The name of one line."""
    if not labels:
        return line.name
    value = value_of(labels)
    return line.words(value) if line.words else value


def _drawn(line: Line, labels: Labels, points: Sequence[Point], unit: Unit) -> Drawn:
    name, value = _name(line, labels, points, unit), value_of(labels) if labels else ""
    short = name.replace(value, f"{value[: _MOST_CHARS - 1]}…") if len(value) > _MOST_CHARS else ""
    return Drawn(line, name, _colour(line, labels), points, short)


def _name(line: Line, labels: Labels, points: Sequence[Point], unit: Unit) -> str:
    """A reference has its value in its name, because it may lie above what the chart shows."""
    name = line_name(line, labels)
    value = newest(points) if line.reference else None
    return name if value is None else f"{name} ({written(value, unit)})"


def _colour(line: Line, labels: Labels) -> str:
    return line.colours(value_of(labels)) if labels and line.colours else line.colour


def _bounds(panel: Panel, count: int) -> list[Drawn]:
    """The constants of a panel, as lines."""
    return [
        Drawn(
            Line(bound.name, panel.lines[0].expression, bound.colour, "dash", "step", reference=True),
            f"{bound.name} ({written(bound.value, panel.unit)})",
            bound.colour,
            [bound.value] * count,
        )
        for bound in panel.bounds
    ]
