"""Alerts on error budgets that are used up too fast: too few requests meet the objectives of their class.

Each compares a long window, which says that it matters, and a short one, which says that it still goes on (Beyer et
al., The Site Reliability Workbook, 2018, chapter 5).
"""

from __future__ import annotations

from headway_dashboard.analysis.catalogue.slo_panels import attainment
from headway_dashboard.analysis.catalogue.thresholds import FAST_BURN, MIN_JUDGED, SLOW_BURN, TARGET_RATIO
from headway_dashboard.export.alerts.recorded import burn_series
from headway_dashboard.export.rule import Alert, Group, number

_JUDGED = attainment("both").whole.of.promql()


def _burns(long: str, short: str, bound: float) -> str:
    return (
        f"{burn_series(long)} > {number(bound)}\n"
        f"  and {burn_series(short)} > {number(bound)}\n"
        f"  and sum by (job, instance, class) (increase({_JUDGED}[{long}])) >= {MIN_JUDGED}"
    )


_SUMMARY = (
    "{{ $labels.instance }}: class {{ $labels.class }} uses up its error budget {{ $value | humanize }} times too fast"
)
_ACTION = (
    f"More than {100 * (1 - TARGET_RATIO):.3g} % of its requests miss their objectives. `headway status` names what "
    "limits the server and what would help."
)

GROUP = Group(
    "headway-objectives",
    (
        Alert(
            "HeadwayObjectiveBurnsFast",
            _burns("1h", "5m", FAST_BURN),
            "2m",
            "critical",
            summary=_SUMMARY,
            action=_ACTION,
            panel="slo-burn",
        ),
        Alert(
            "HeadwayObjectiveBurnsSlowly",
            _burns("6h", "30m", SLOW_BURN),
            "15m",
            "warning",
            summary=_SUMMARY,
            action=_ACTION,
            panel="slo-burn",
        ),
    ),
)
