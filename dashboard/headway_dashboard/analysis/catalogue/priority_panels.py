"""Requests and priority classes: arrivals, waits, ends, and whether each class gets its part."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue import causes, engine_panels, palette, panels
from headway_dashboard.analysis.catalogue.batch_panels import BATCH_PANELS
from headway_dashboard.analysis.catalogue.panels import Bound, Line, Panel, lines_of, quantile_lines
from headway_dashboard.analysis.catalogue.thresholds import ERROR_RATIO, QUEUE_AGE_RATIO
from headway_dashboard.analysis.queries.durations import quantiles
from headway_dashboard.analysis.queries.expressions import Metric, Over, Portion, Rate, Share
from headway_dashboard.analysis.units import written

MINUTE_S, HOUR_S = 60.0, 3600.0

WAIT = quantiles("wait")
OUTCOMES = Rate(Metric("headway_outcomes_total", by=("outcome",)))
REFUSALS = Rate(Metric("headway_refusals_total", by=("reason",)))
FINISHES = Rate(Metric("headway_finish_reasons_total", by=("finish_reason",)))
TOKENS_BY_CLASS = Rate(Metric("headway_output_tokens_total", by=("class",)))
LOWERED = Rate(Metric("headway_lowered_classes_total", by=("class",)))
TOKEN_SHARE = Portion(TOKENS_BY_CLASS, Rate(Metric("headway_output_tokens_total")))


def _errors(window_s: float) -> Over:
    assert isinstance(panels.ERROR_SHARE, Share)
    return Over(panels.ERROR_SHARE, window_s)


ARRIVALS_PANEL = Panel(
    "arrivals",
    "Arrivals by class",
    "Requests that asked for a seat, a second, stacked.",
    "per_s",
    (Line("", panels.ARRIVALS_BY_CLASS, kind="bar", colours=palette.of_class),),
    "The load. Compare its peaks with the peaks of the queue.",
    quiet="no request arrived in this time",
)
LOWERED_PANEL = Panel(
    "lowered",
    "Classes that the key does not allow",
    "Requests a second that asked for a class that their key does not allow, by that class.",
    "per_s",
    (Line("", LOWERED, kind="bar", colours=palette.of_class),),
    "These requests run in a less urgent class. Make a key that has the class: headway keys add --classes.",
    quiet="every request got the class that it asked for",
)
WAIT_PANEL = Panel(
    "wait",
    "Wait in the queue",
    "From arrival to dispatch, of the requests that were dispatched. No quantile is above the longest wait seen.",
    "seconds",
    quantile_lines(WAIT),
    "p99 far above p50: a few requests wait long. Choose a class above to see which.",
    idle="no request was dispatched in this time",
)
OUTCOMES_PANEL = Panel(
    "outcomes",
    "Ends by outcome",
    "Requests a second that ended, by outcome; each request has exactly one.",
    "per_s",
    (lines_of(OUTCOMES, palette.OUTCOMES, "bar"),),
    "Cancelled ones were ended by their client: many of them mean that users do not wait so long.",
    quiet="no request ended in this time",
)
REFUSALS_PANEL = Panel(
    "refusals",
    "Refused or given up, by reason",
    "Requests a second that were refused on arrival, or given up later, by reason.",
    "per_s",
    (Line("", REFUSALS, kind="bar", words=causes.words, colours=causes.colour),),
    "Expected wait too long: refused at once instead of timing out later. Shed: by command of the fallback ladder.",
    quiet="no request was refused or given up in this time",
)
TOKEN_SHARE_PANEL = Panel(
    "token-share",
    "Share of the output tokens",
    "Share of each class in all output tokens a second. A class filter hides classes and changes no share.",
    "ratio",
    (Line("", TOKEN_SHARE, colours=palette.of_class),),
    "The preset's shares divide the seats only while every class has requests that wait.",
    idle="no output tokens in this time",
    ceiling=1.0,
)
QUEUE_AGE_PANEL = Panel(
    "queue-age",
    "Starvation: longest wait, of the time-out",
    "How long the oldest request of each class has waited, as a share of the longest time that it may wait.",
    "ratio",
    (panels.line_of_class(panels.QUEUE_AGE_BY_CLASS, "{}"),),
    "At 100 % requests expire. One class alone, again and again: give it a larger share, or reserved seats.",
    quiet="no request waited in this time",
    bounds=(Bound("alert", QUEUE_AGE_RATIO),),
)
FINISHES_PANEL = Panel(
    "finishes",
    "Finish reasons",
    "Requests a second by the finish reason of their answer.",
    "per_s",
    (lines_of(FINISHES, palette.FINISHES, "bar"),),
    "More length than usual: clients ask for few tokens, or the fallback ladder shortens answers.",
    quiet="no answer ended in this time",
)
ERROR_RATIO_PANEL = Panel(
    "error-share",
    "Error share",
    "Share of the ended requests that neither completed nor were cancelled by their client: over a minute, and "
    "over an hour.",
    "ratio",
    (
        Line("over a minute", _errors(MINUTE_S), palette.RED),
        Line("over an hour", _errors(HOUR_S), palette.ORANGE, "dash"),
    ),
    f"The alerts begin at {written(ERROR_RATIO, 'ratio')}. A minute far above the hour: it has just begun.",
    quiet="no errors in this time",
    idle="no request ended in this time",
    bounds=(Bound("alert", ERROR_RATIO),),
)
REQUESTS_SECTION = (
    ARRIVALS_PANEL,
    LOWERED_PANEL,
    panels.QUEUE_PANEL,
    WAIT_PANEL,
    engine_panels.OLDEST_PANEL,
    OUTCOMES_PANEL,
    REFUSALS_PANEL,
    ERROR_RATIO_PANEL,
    FINISHES_PANEL,
    TOKEN_SHARE_PANEL,
    QUEUE_AGE_PANEL,
    engine_panels.QUEUE_TOKENS_PANEL,
    *BATCH_PANELS,
)
LADDER_SECTION = (engine_panels.RUNG_PANEL, engine_panels.DEGRADED_PANEL)
