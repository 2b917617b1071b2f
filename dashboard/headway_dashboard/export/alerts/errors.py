"""Alerts on requests that fail, run out of time, or are refused though they are urgent."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.catalogue.thresholds import ERROR_RATIO, HIGH_ERROR_RATIO, TIMEOUT_RATIO
from headway_dashboard.export.readable import by_server
from headway_dashboard.export.rule import Alert, Group, number
from headway_policies.diagnosis import Bottleneck


def _share(outcomes: str, bound: float) -> str:
    ended = "sum by (job, instance) (instance:headway_outcomes:rate5m{})"
    part = ended.replace("{}", f'{{outcome=~"{outcomes}"}}')
    return f"{part}\n  / {ended.replace('{}', '')} > {number(bound)}"


def _unanswered(bound: float) -> str:
    """What clients send wrongly is no fault of the server."""
    return (
        f"{by_server(panels.ERROR_SHARE).promql('5m')} > {number(bound)}\n"
        f'  unless on (job, instance) headway_bottleneck{{bottleneck="{Bottleneck.INVALID_REQUESTS}"}} == 1'
    )


_UNANSWERED = "{{ $labels.instance }}: {{ $value | humanizePercentage }} of requests end without an answer"

GROUP = Group(
    "headway-errors",
    (
        Alert(
            "HeadwayErrorShare",
            _share("failed|engine_lost", ERROR_RATIO),
            "5m",
            "warning",
            summary="{{ $labels.instance }}: {{ $value | humanizePercentage }} of requests fail",
            action=f"More than {100 * ERROR_RATIO:g} % for 5 minutes. The server's log has the errors.",
            panel="failed-share",
        ),
        Alert(
            "HeadwayUnanswered",
            _unanswered(ERROR_RATIO),
            "5m",
            "warning",
            summary=_UNANSWERED,
            action="`headway status` names the main cause and what would help.",
            panel="error-share",
        ),
        Alert(
            "HeadwayUnansweredHigh",
            _unanswered(HIGH_ERROR_RATIO),
            "5m",
            "critical",
            summary=_UNANSWERED,
            action="`headway status` names the main cause and what would help. Where others serve, send them traffic "
            "of this server.",
            panel="error-share",
        ),
        Alert(
            "HeadwayTimeoutShare",
            _share("expired_queued|expired_running", TIMEOUT_RATIO),
            "5m",
            "warning",
            summary="{{ $labels.instance }}: {{ $value | humanizePercentage }} of requests run out of time",
            action="Too much load for the preset: switch to `throughput`, or add a server.",
            panel="timeout-share",
        ),
        Alert(
            "HeadwayRealtimeRefused",
            'sum by (job, instance, reason) (increase(headway_refusals_total{class="realtime"}[5m])) > 0',
            "1m",
            "warning",
            summary="{{ $labels.instance }} refuses realtime requests: {{ $labels.reason }}",
            action="Realtime work comes first, so all else is refused or waits too. Add a server or shed batch work.",
            panel="errors",
            condition="any of class realtime in 5 minutes",
        ),
    ),
)
