"""The form of a rule: an alert, a recorded series, a group of them. Prometheus and the page read the same condition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headway_dashboard.analysis.catalogue import thresholds
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.metric import INSTANCE, by_server
from headway_dashboard.analysis.units import Unit, written

Severity = Literal["critical", "warning", "info"]

#: How Prometheus writes a value of a unit.
_TEMPLATES: Mapping[Unit, str] = {
    "count": "humanize",
    "per_s": "humanize",
    "bytes": "humanize1024",
    "ratio": "humanizePercentage",
    "seconds": "humanizeDuration",
}


@dataclass(frozen=True, slots=True)
class Record:
    """A series that Prometheus computes and stores."""

    name: str
    expression: Expression

    @property
    def expr(self) -> str:
        """The PromQL of the alert, by server."""
        return by_server(self.expression).promql("5m")


@dataclass(frozen=True, slots=True)
class Rule:
    """An alert.

    ``condition`` has a line, with its value in ``unit``, for each server and label for which it holds. ``lasting`` is
    how long it must hold until Prometheus notifies, as a duration of Prometheus. ``text`` says what is wrong, without
    the server and without a full stop; a label of the condition and ``value`` stand in braces. ``panel`` is the id of
    the panel that draws the quantity. ``fires`` says in words when; empty where the bounds of that panel say it.
    ``of_several``: it compares servers, and a page of a single one leaves it out.
    """

    name: str
    condition: Expression
    lasting: str
    severity: Severity
    text: str
    action: str
    unit: Unit = "count"
    panel: str = ""
    fires: str = ""
    of_several: bool = False

    @property
    def asked(self) -> Expression:
        """The condition with its lines kept apart by server."""
        return by_server(self.condition)

    @property
    def expr(self) -> str:
        """The condition as PromQL."""
        return self.asked.promql("5m")

    @property
    def summary(self) -> str:
        """The text as a template of Prometheus, with the server before it, else the job."""
        by = self.asked.by
        labels = {label: f"{{{{ $labels.{label} }}}}" for label in by}
        value = f"{{{{ $value | {_TEMPLATES[self.unit]} }}}}"
        return f"{labels[INSTANCE if INSTANCE in by else 'job']}: {self.text.format_map({**labels, 'value': value})}"

    def says(self, labels: Mapping[str, str], value: float) -> str:
        """The text for the page, without the server."""
        words = {label: text.replace("_", " ") for label, text in labels.items()}
        return self.text.format_map({**words, "value": written(value, self.unit)})

    @property
    def fires_at(self) -> str:
        """When it fires, in words."""
        return self.fires or ", ".join(bound.words(self.unit) for bound in self.bounds_of(self.panel))

    def bounds_of(self, panel: str) -> tuple[thresholds.Bound, ...]:
        """The bounds of a panel that belong to it."""
        return tuple(bound for bound in thresholds.PANEL_BOUNDS.get(panel, ()) if bound.alert == self.name)

    def watches(self, panel: str) -> bool:
        """Whether a panel draws its quantity, or one of its bounds."""
        return self.panel == panel or bool(self.bounds_of(panel))


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that Prometheus evaluates together."""

    name: str
    rules: tuple[Record | Rule, ...]
