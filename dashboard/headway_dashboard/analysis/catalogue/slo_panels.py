"""Service level: the objectives that were met, and the error budget that is used up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from headway_dashboard.analysis.catalogue import palette
from headway_dashboard.analysis.catalogue.panels import Bound, Line, Panel
from headway_dashboard.analysis.catalogue.thresholds import TARGET_RATIO
from headway_dashboard.analysis.queries.expressions import Burn, Metric, Over, Rate, Share
from headway_dashboard.analysis.units import duration, written

Objective = Literal["first_token", "inter_token", "both"]

#: The look backs of the burn rate, in seconds: what happens now, and whether it lasts.
SHORT_S, LONG_S = 300.0, 3600.0

_TARGET = written(TARGET_RATIO, "ratio")


def _counted(what: Literal["judged", "met"], objective: Objective) -> Rate:
    return Rate(Metric(f"headway_objective_{what}_total", (("objective", (objective,)),), ("class",)))


def attainment(objective: Objective) -> Share:
    """The share of judged requests that met their objective, by class."""
    return Share(_counted("met", objective), _counted("judged", objective))


GOODPUT = _counted("met", "both")


def burn(window_s: float) -> Burn:
    """The speed at which the error budget of each class is used up."""
    return Burn(Over(attainment("both"), window_s), TARGET_RATIO)


def _attainment_panel(objective: Objective, title: str, what: str) -> Panel:
    return Panel(
        f"slo-{objective.replace('_', '-')}",
        title,
        f"Share of the judged requests of each class that met {what}. A refused, shed or timed-out request is judged, "
        "and misses the objective of the first token; a request that its client cancelled is not judged.",
        "ratio",
        (Line("", attainment(objective), colours=palette.of_class),),
        f"The target is {_TARGET}.",
        idle="no request was judged in this time",
        ceiling=1.0,
        bounds=(Bound("target", TARGET_RATIO),),
    )


def _over(window_s: float) -> Callable[[str], str]:
    return lambda name: f"{name}, over {duration(window_s)}"


BOTH_PANEL = _attainment_panel("both", "Objectives met", "every objective of their class")
FIRST_TOKEN_MET_PANEL = _attainment_panel(
    "first_token", "First-token objective met", "the objective of the first token"
)
INTER_TOKEN_MET_PANEL = _attainment_panel(
    "inter_token", "Objective between tokens met", "the objective of the time between tokens"
)
GOODPUT_PANEL = Panel(
    "slo-goodput",
    "Goodput",
    "Requests a second that met every objective of their class, stacked.",
    "per_s",
    (Line("", GOODPUT, kind="bar", colours=palette.of_class),),
    "The throughput that counts for users. Goodput falls when more seats make every request late.",
    quiet="no request met its objectives in this time",
    idle="no request was judged in this time",
)
BURN_PANEL = Panel(
    "slo-burn",
    f"Burn of the error budget (target {_TARGET})",
    f"The target is that {_TARGET} of the judged requests meet their objectives; the error budget is the rest, "
    f"{written(1 - TARGET_RATIO, 'ratio')}. At 1 it is used up exactly in time, at 10 in a tenth of the time. Solid: "
    f"over {duration(SHORT_S)}; dashed: over {duration(LONG_S)}.",
    "count",
    (
        Line("", burn(SHORT_S), words=_over(SHORT_S), colours=palette.of_class),
        Line("", burn(LONG_S), dash="dash", words=_over(LONG_S), colours=palette.of_class),
    ),
    "Both above 1: the target is being missed. Only the short one: it has just begun, or is a moment's peak.",
    quiet="every judged request met its objectives in this time",
    idle="no request was judged in this time",
    bounds=(Bound("budget", 1.0),),
)
SLO_SECTION = (BOTH_PANEL, GOODPUT_PANEL, FIRST_TOKEN_MET_PANEL, INTER_TOKEN_MET_PANEL, BURN_PANEL)


def held_words(longest_s: float) -> str:
    """The time that the long look back covers, where a source holds less; empty where it holds enough."""
    if longest_s >= LONG_S:
        return ""
    return (
        f"The source of the figures keeps {duration(longest_s)}: figures over {duration(LONG_S)} here cover that time "
        "at most."
    )
