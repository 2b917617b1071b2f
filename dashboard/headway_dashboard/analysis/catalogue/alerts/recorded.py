"""Recorded series: percentiles and rates that several alerts or boards read."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue.alerts.rule import Group, Record
from headway_dashboard.analysis.catalogue.slo_panels import burn
from headway_dashboard.analysis.queries.expressions import Metric, Quantile, Rate

#: The windows of the burn rates, in seconds.
_BURN_WINDOWS_S = {"5m": 300.0, "30m": 1800.0, "1h": 3600.0, "6h": 21600.0}


def _p95(histogram: str) -> Quantile:
    return Quantile(0.95, Metric(histogram, by=("class",)))


RECORDED = Group(
    "headway-recorded",
    (
        Record("class:headway_time_to_first_token_seconds:p95_5m", _p95("headway_time_to_first_token_seconds")),
        Record("class:headway_queue_wait_seconds:p95_5m", _p95("headway_queue_wait_seconds")),
        Record("instance:headway_outcomes:rate5m", Rate(Metric("headway_outcomes_total", by=("outcome",)))),
        *(
            Record(f"class:headway_objective_burn:ratio_rate{name}", burn(window_s))
            for name, window_s in _BURN_WINDOWS_S.items()
        ),
    ),
)
