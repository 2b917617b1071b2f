"""Alerts on the server's own diagnosis."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue.thresholds import OVERLOADED_RATIO
from headway_dashboard.export.rule import Alert, Group, number
from headway_policies.diagnosis import Bottleneck, Severity

GROUP = Group(
    "headway-diagnosis",
    (
        Alert(
            "HeadwayOverloaded",
            f"avg_over_time((headway_severity == bool {Severity.OVERLOADED:d})[5m:15s]) > {number(OVERLOADED_RATIO)}",
            "2m",
            "warning",
            summary="{{ $labels.instance }} is overloaded: more arrives than it can serve in time",
            action="`headway status` names what limits it and the remedies in order, with what each costs.",
            condition=f"overloaded in more than {100 * OVERLOADED_RATIO:g} % of 5 minutes",
        ),
        Alert(
            "HeadwayDegraded",
            f"headway_severity >= {Severity.DEGRADED:d} and headway_severity < {Severity.DOWN:d}\n"
            f'  unless on (job, instance) headway_bottleneck{{bottleneck="{Bottleneck.INVALID_REQUESTS}"}} == 1',
            "10m",
            "warning",
            summary="{{ $labels.instance }} misses an objective, fails requests or degrades them, for ten minutes",
            action="`headway status` names the figure that is out of its bound and what would help.",
            condition="degraded or overloaded",
        ),
    ),
)
