"""The curves of a panel of the catalogue as other programs draw them."""

from __future__ import annotations

from dataclasses import dataclass

from headway_dashboard.analysis.catalogue import causes, thresholds
from headway_dashboard.analysis.catalogue.panels import Kind, Line, Panel
from headway_dashboard.analysis.queries.expressions import Expression

#: Stands for a value that no label has, to see the words around it.
_VALUE = "@"


@dataclass(frozen=True, slots=True)
class Curve:
    """A query of a chart: a line, or one for each value of the labels of its expression.

    ``legend`` has Grafana's placeholders for labels. ``right``: its scale stands on the right, because it is of another
    unit. ``reference``: it is no measurement.
    """

    legend: str
    expression: Expression
    colour: str = ""
    dash: str = "solid"
    kind: Kind = "line"
    right: bool = False
    reference: bool = False


def curves_of(panel: Panel) -> tuple[Curve, ...]:
    """The lines of a panel. A figure that its page draws across another quantity is drawn over time beside it here."""
    curves = tuple(_curve(line) for line in panel.lines)
    if panel.across is None:
        return curves
    return (*curves, Curve(panel.across.title, panel.across.expression, right=True))


def bounds_of(panel: Panel) -> tuple[thresholds.Bound, ...]:
    """The bounds of its alerts, which it draws."""
    return thresholds.PANEL_BOUNDS.get(panel.id, ())


def _curve(line: Line) -> Curve:
    """A line with labels of its own gets its colours from Grafana."""
    colour = "" if line.expression.by else line.colour
    return Curve(_legend(line), line.expression, colour, line.dash, line.kind, reference=line.reference)


def _legend(line: Line) -> str:
    """The name of a line; a bucket's is its bound. Words around a label value are kept, words in its place are not."""
    labels = [f"{{{{{label}}}}}" for label in line.expression.by]
    if line.kind == "heat":
        return labels[-1]
    if len(labels) == 1 and line.words is not None and line.words is not causes.words:
        return line.words(_VALUE).replace(_VALUE, labels[0])
    return " ".join(filter(None, (line.name, *labels)))
