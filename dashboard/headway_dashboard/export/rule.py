"""What a rule of Prometheus is: a recorded series, an alert, a group of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway_dashboard.analysis.catalogue import thresholds


@dataclass(frozen=True, slots=True)
class Record:
    """A series that Prometheus computes and stores."""

    name: str
    expr: str


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert. ``lasting`` is how long its condition must hold, as a duration of Prometheus.

    ``panel`` is the id of the panel that draws its quantity. ``condition`` says in words when it fires; empty where the
    bounds of that panel say it.
    """

    name: str
    expr: str
    lasting: str
    severity: Literal["critical", "warning", "info"]
    summary: str
    action: str
    panel: str = ""
    condition: str = ""

    def bounds_of(self, panel: str) -> tuple[thresholds.Bound, ...]:
        """The bounds of a panel that belong to it."""
        return tuple(one for one in thresholds.PANEL_BOUNDS.get(panel, ()) if one.alert == self.name)

    def watches(self, panel: str) -> bool:
        """Whether a panel draws its quantity, or one of its bounds."""
        return self.panel == panel or bool(self.bounds_of(panel))


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that Prometheus evaluates together."""

    name: str
    rules: tuple[Record | Alert, ...]


def number(value: float) -> str:
    """A number in an expression: never with more digits than it was written with."""
    return f"{value:.9g}"
