"""The beginning of the trouble that there is now, by the severity that a server has told over time."""

from __future__ import annotations

from datetime import datetime, tzinfo

from headway_dashboard.analysis.queries.expressions import Gauge, Metric
from headway_dashboard.analysis.queries.model import Series
from headway_policies.diagnosis import Severity

SEVERITY = Gauge(Metric("headway_severity"), largest=True)


def trouble_since(severities: Series, zone: tzinfo) -> str:
    """The words "since 02:14"; where the beginning was not seen "since 02:14 at least". Empty without trouble."""
    began_s, seen = None, False
    for time_s, point in zip(reversed(severities.times_s), reversed(severities.line()), strict=False):
        if point is not None and point < Severity.DEGRADED:
            seen = True
            break
        began_s = began_s if point is None else time_s
    if began_s is None:
        return ""
    return f"since {datetime.fromtimestamp(began_s, zone).strftime('%H:%M')}{'' if seen else ' at least'}"
