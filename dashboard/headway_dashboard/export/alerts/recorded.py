"""Recorded series: percentiles and rates that several alerts or boards read."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue.slo_panels import burn
from headway_dashboard.export.readable import by_server
from headway_dashboard.export.rule import Group, Record

#: The windows of the burn rates, in seconds.
BURN_WINDOWS_S = {"5m": 300.0, "30m": 1800.0, "1h": 3600.0, "6h": 21600.0}


def burn_series(window: str) -> str:
    """The recorded burn of the error budget of each class, over a window."""
    return f"class:headway_objective_burn:ratio_rate{window}"


def _p95(histogram: str) -> str:
    return f"histogram_quantile(0.95, sum by (job, instance, class, le) (rate({histogram}_bucket[5m])))"


RECORDED = Group(
    "headway-recorded",
    (
        Record(
            "class:headway_time_to_first_token_seconds:p95_5m",
            _p95("headway_time_to_first_token_seconds"),
        ),
        Record("class:headway_queue_wait_seconds:p95_5m", _p95("headway_queue_wait_seconds")),
        Record(
            "instance:headway_outcomes:rate5m",
            "sum by (job, instance, outcome) (rate(headway_outcomes_total[5m]))",
        ),
        *(Record(burn_series(name), by_server(burn(window_s)).promql("")) for name, window_s in BURN_WINDOWS_S.items()),
    ),
)
