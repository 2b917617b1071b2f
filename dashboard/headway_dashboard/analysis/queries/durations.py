"""Quantiles of the durations that the server measures, never above the longest one it has seen."""

from __future__ import annotations

from typing import Literal

from headway_dashboard.analysis.queries.expressions import Metric, Quantile

Measured = Literal["wait", "first_token", "inter_token", "end_to_end", "prefill", "decode"]

SHARES = (0.5, 0.95, 0.99)

_HISTOGRAMS: dict[Measured, str] = {
    "wait": "headway_queue_wait_seconds",
    "first_token": "headway_time_to_first_token_seconds",
    "inter_token": "headway_inter_token_seconds",
    "end_to_end": "headway_end_to_end_seconds",
    "prefill": "headway_prefill_seconds",
    "decode": "headway_decode_seconds",
}


def histogram(of: Measured, *by: str) -> Metric:
    """The histogram of a duration, in seconds."""
    return Metric(_HISTOGRAMS[of], by=by)


def quantile(share: float, of: Measured, *by: str) -> Quantile:
    """A quantile of a duration; a server without the longest one leaves it as it is interpolated."""
    longest = Metric("headway_longest_seconds", (("of", (of,)),), by=by)
    return Quantile(share, histogram(of, *by), longest)


def quantiles(of: Measured, *by: str) -> dict[float, Quantile]:
    """p50, p95 and p99, by their share."""
    return {share: quantile(share, of, *by) for share in SHARES}
