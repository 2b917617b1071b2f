"""Alerts on the server's own diagnosis."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue.alerts.rule import Group, Rule
from headway_dashboard.analysis.catalogue.thresholds import OVERLOADED_RATIO
from headway_dashboard.analysis.queries.conditions import Compared, Joined, TimeShare
from headway_dashboard.analysis.queries.expressions import Expression, Gauge, Metric
from headway_policies.diagnosis import Bottleneck, Severity

_SEVERITY = Gauge(Metric("headway_severity"), largest=True)
_INVALID = Gauge(Metric("headway_bottleneck", (("bottleneck", (Bottleneck.INVALID_REQUESTS,)),)), largest=True)


#: An overload before the death of an engine, or before a pause, is over.
_NOT_SERVED = Gauge(
    Metric(
        "headway_bottleneck",
        (("bottleneck", (Bottleneck.ENGINE_DOWN, Bottleneck.ENGINE_SILENT, Bottleneck.STOPPED)),),
    ),
    largest=True,
)


def unless_invalid(condition: Expression) -> Expression:
    """The condition, but where the server names wrong requests as its trouble: they are no fault of the server."""
    return Joined(condition, "unless", Compared(_INVALID, "==", 1))


GROUP = Group(
    "headway-diagnosis",
    (
        Rule(
            "HeadwayOverloaded",
            Joined(
                Compared(TimeShare(_SEVERITY, Severity.OVERLOADED, 300), ">", OVERLOADED_RATIO),
                "unless",
                Compared(_NOT_SERVED, "==", 1),
            ),
            "2m",
            "warning",
            text="overloaded: more requests arrive than can be in time",
            action="`headway status` names the bottleneck and the remedies, the best first, with their costs.",
            fires=f"overloaded in more than {100 * OVERLOADED_RATIO:g} % of 5 minutes",
        ),
        Rule(
            "HeadwayDegraded",
            unless_invalid(Compared(Compared(_SEVERITY, ">=", Severity.DEGRADED), "<", Severity.DOWN)),
            "10m",
            "warning",
            text="an objective is missed, or requests fail or are degraded",
            action="`headway status` names the figure that is out of its bound and what would help.",
            fires="degraded or overloaded",
        ),
    ),
)
