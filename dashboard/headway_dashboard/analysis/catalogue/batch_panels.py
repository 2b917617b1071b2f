"""The batches of OpenAI's Batch API, of all tenants: how many have not ended, and what becomes of their lines."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue import palette
from headway_dashboard.analysis.catalogue.panels import Line, Panel, lines_of, of
from headway_dashboard.analysis.queries.expressions import Gauge, Rate

_QUIET = "no batch was open in this time"
_IDLE = "nothing of batches in this time, or there is no folder for them (HEADWAY_BATCH_DIR)"

BATCHES_PANEL = Panel(
    "batches",
    "Batch API: open batches",
    "Batches that have not ended, by status; late are those in progress that would miss their window at their pace. "
    "One of a tenant runs at a time: the others are validating until it is over.",
    "count",
    (
        lines_of(Gauge(of("headway_open_batches", "status")), palette.BATCH_STATUSES),
        Line("late", Gauge(of("headway_late_batches")), palette.RED, "dash"),
    ),
    "A late one runs in the default class. Late for long: it needs more than its share, or fewer lines.",
    quiet=_QUIET,
    idle=_IDLE,
)
LINES_LEFT_PANEL = Panel(
    "batch-lines-left",
    "Batch API: lines left",
    "Lines of the batches in progress that are not over, of all tenants.",
    "count",
    (Line("left", Gauge(of("headway_batch_lines_left"))),),
    "Level: the other classes leave nothing.",
    quiet=_QUIET,
    idle=_IDLE,
)
LINES_PANEL = Panel(
    "batch-lines",
    "Batch API: lines over",
    "Lines a second that have their answer: completed, or failed, as all that are left when a batch expires.",
    "per_s",
    (lines_of(Rate(of("headway_batch_lines_total", "outcome")), palette.OUTCOMES, "bar"),),
    "The error file of a batch says why a line has failed.",
    quiet="no line of a batch ended in this time",
    idle=_IDLE,
)
BATCH_PANELS = (BATCHES_PANEL, LINES_LEFT_PANEL, LINES_PANEL)
