"""Alerts on requests that fail, run out of time, or are refused though they are urgent."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.catalogue.alerts.diagnosis import unless_invalid
from headway_dashboard.analysis.catalogue.alerts.rule import Group, Rule
from headway_dashboard.analysis.catalogue.thresholds import ERROR_RATIO, HIGH_ERROR_RATIO, MIN_JUDGED, TIMEOUT_RATIO
from headway_dashboard.analysis.queries.conditions import Compared, Grown, Joined
from headway_dashboard.analysis.queries.expressions import Expression, Metric, Over, Rate, Share

_WINDOW_S = 300.0


def _ended(*outcomes: str) -> Rate:
    return Rate(Metric("headway_outcomes_total", (("outcome", outcomes),) if outcomes else ()))


FAILED_SHARE = Share(_ended("failed", "engine_lost"), _ended())
TIMEOUT_SHARE = Share(_ended("expired_queued", "expired_running"), _ended())


def _over(share: Share, bound: float) -> Expression:
    enough = Compared(Grown(share.whole.metric, _WINDOW_S), ">=", MIN_JUDGED)
    return Joined(Compared(Over(share, _WINDOW_S), ">", bound), "and", enough)


_UNANSWERED = "{value} of the requests end without an answer"

GROUP = Group(
    "headway-errors",
    (
        Rule(
            "HeadwayErrorShare",
            _over(FAILED_SHARE, ERROR_RATIO),
            "5m",
            "warning",
            text="{value} of the requests fail",
            action=f"More than {100 * ERROR_RATIO:g} % for 5 minutes. The server's log has the errors.",
            unit="ratio",
            panel="failed-share",
        ),
        Rule(
            "HeadwayUnanswered",
            unless_invalid(_over(panels.ERROR_SHARE, ERROR_RATIO)),
            "5m",
            "warning",
            text=_UNANSWERED,
            action="`headway status` names the main cause and what would help.",
            unit="ratio",
            panel="error-share",
        ),
        Rule(
            "HeadwayUnansweredHigh",
            unless_invalid(_over(panels.ERROR_SHARE, HIGH_ERROR_RATIO)),
            "5m",
            "critical",
            text=_UNANSWERED,
            action="`headway status` names the main cause and what would help. Where others serve, send them traffic "
            "of this server.",
            unit="ratio",
            panel="error-share",
        ),
        Rule(
            "HeadwayTimeoutShare",
            _over(TIMEOUT_SHARE, TIMEOUT_RATIO),
            "5m",
            "warning",
            text="{value} of the requests run out of time",
            action="Too much load for the preset: switch to `throughput`, or add a server.",
            unit="ratio",
            panel="timeout-share",
        ),
        Rule(
            "HeadwayRealtimeRefused",
            Compared(Grown(Metric("headway_refusals_total", (("class", ("realtime",)),), ("reason",)), 300), ">", 0),
            "1m",
            "warning",
            text="realtime requests are refused ({reason})",
            action="Realtime work comes first, so all else is refused or waits too. Add a server or shed batch work.",
            panel="errors",
            fires="any of class realtime in 5 minutes",
        ),
    ),
)
