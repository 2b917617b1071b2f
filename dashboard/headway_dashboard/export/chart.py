"""One chart as other programs draw it: a panel of the catalogue, or a quantity that only the alerts compare."""

from __future__ import annotations

from dataclasses import dataclass

from headway_dashboard.analysis.catalogue import causes, thresholds
from headway_dashboard.analysis.catalogue.panels import Kind, Line, Panel
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.units import Unit
from headway_dashboard.export.readable import names_of

#: Stands for a value that no label has, to see the words around it.
_VALUE = "@"


@dataclass(frozen=True, slots=True)
class Curve:
    """One query of a chart: a line, or one for each value of the labels of its expression.

    ``legend`` has Grafana's placeholders for labels. ``right``: its scale stands on the right, because it is of another
    unit.
    """

    legend: str
    expression: Expression
    colour: str = ""
    dash: str = "solid"
    kind: Kind = "line"
    right: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart; ``empty`` is what it says without data, ``marks`` are constants that it draws without an alert."""

    id: str
    title: str
    help: str
    unit: Unit
    curves: tuple[Curve, ...]
    empty: str = "no data"
    ceiling: float | None = None
    steps: tuple[str, ...] = ()
    marks: tuple[float, ...] = ()

    @property
    def bounds(self) -> tuple[thresholds.Bound, ...]:
        """The bounds of its alerts, which it draws."""
        return thresholds.PANEL_BOUNDS.get(self.id, ())

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics that it reads, each once."""
        return tuple(dict.fromkeys(name for curve in self.curves for name in names_of(curve.expression)))


def chart_of(panel: Panel) -> Chart:
    """A panel of the catalogue. What its page draws across another quantity is here drawn over time beside it."""
    curves = tuple(_curve(line) for line in panel.lines)
    if panel.across is not None:
        curves = (*curves, Curve(panel.across.title, panel.across.expression, right=True))
    text = f"{panel.help}\n\n{panel.caption}".strip()
    marks = tuple(bound.value for bound in panel.bounds)
    return Chart(
        panel.id, panel.title, text, panel.unit, curves, panel.idle or "no data", panel.ceiling, panel.steps, marks
    )


def _curve(line: Line) -> Curve:
    """A line with labels of its own gets its colours from Grafana."""
    colour = "" if line.expression.by else line.colour
    return Curve(_legend(line), line.expression, colour, line.dash, line.kind)


def _legend(line: Line) -> str:
    """The name of a line; a bucket's is its bound. Words around a label value are kept, words in its place are not."""
    labels = [f"{{{{{label}}}}}" for label in line.expression.by]
    if line.kind == "heat":
        return labels[-1]
    if len(labels) == 1 and line.words is not None and line.words is not causes.words:
        return line.words(_VALUE).replace(_VALUE, labels[0])
    return " ".join(filter(None, (line.name, *labels)))
