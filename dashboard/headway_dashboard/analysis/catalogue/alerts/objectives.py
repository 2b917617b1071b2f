"""Alerts on error budgets that are used up too fast: too few requests meet the objectives of their class.

Each compares a long window, which says that it matters, and a short one, which says that it still goes on (Beyer et
al., The Site Reliability Workbook, 2018, chapter 5).
"""

from __future__ import annotations

from headway_dashboard.analysis.catalogue.alerts.rule import Group, Rule, Severity
from headway_dashboard.analysis.catalogue.slo_panels import attainment, burn
from headway_dashboard.analysis.catalogue.thresholds import FAST_BURN, MIN_JUDGED, SLOW_BURN, TARGET_RATIO
from headway_dashboard.analysis.queries.conditions import Compared, Grown, Joined


def _burns(name: str, long_s: float, short_s: float, bound: float, lasting: str, severity: Severity) -> Rule:
    lasts = Joined(Compared(burn(long_s), ">", bound), "and", Compared(burn(short_s), ">", bound))
    judged = Compared(Grown(attainment("both").whole.metric, long_s), ">=", MIN_JUDGED)
    return Rule(
        name,
        Joined(lasts, "and", judged),
        lasting,
        severity,
        text="class {class} uses up its error budget {value} times too fast",
        action=f"More than {100 * (1 - TARGET_RATIO):.3g} % of its requests miss their objectives. `headway status` "
        "names what limits the server and what would help.",
        panel="slo-burn",
    )


GROUP = Group(
    "headway-objectives",
    (
        _burns("HeadwayObjectiveBurnsFast", 3600, 300, FAST_BURN, "2m", "critical"),
        _burns("HeadwayObjectiveBurnsSlowly", 21600, 1800, SLOW_BURN, "15m", "warning"),
    ),
)
