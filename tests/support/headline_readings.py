"""Readings of a server, and the headline of each."""

from __future__ import annotations

import math
from collections.abc import Mapping

from headway.api.schema import EngineStatus, WarmupStatus
from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.diagnosis.headline import Headline
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.model import Labels, Point, Series
from headway_dashboard.analysis.server.objectives import ClassObjectives
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.sources import Health, SourceReading
from headway_policies.diagnosis import Severity

INF, NAN = math.inf, math.nan
JUST_ABOVE = math.nextafter(0.01, 1)
TIMES_S = (1000.0, 1002.0)
CLASSES = ("realtime", "normal", "batch")

#: What a sentence says only of a server that does well.
FAVOURABLE = ("below capacity", "without delay", "idle:", "plenty of room", "no request is lost")

Answers = Mapping[Expression, Point | Mapping[Labels, Point]]

WELL: Answers = {
    panels.SEATS: 5, panels.LIMIT: 32, panels.CEILING: 64, panels.QUEUED: 0, panels.KV_USE: 0.1,
    panels.ERROR_SHARE: 0.01, panels.ARRIVALS: 2, panels.IN_FLIGHT: 5, panels.READY: 1, panels.TTFT[0.95]: 0.1,
    panels.ENGINE_STATE: {("up",): 1}, panels.QUEUED_BY_CLASS: {("normal",): 0},
    panels.IN_FLIGHT_BY_CLASS: {("normal",): 5}, panels.ARRIVALS_BY_CLASS: {("normal",): 2},
    panels.TTFT_P95_BY_CLASS: {("normal",): 0.1}, panels.ERROR_SHARE_BY_CLASS: {("normal",): 0.0},
}  # fmt: skip
TOLD = Status(
    known=True,
    admission="open",
    engine=EngineStatus(state="up"),
    warmup=WarmupStatus(state="done"),
    limit_reason="fixed",
    strategy="continuous",
    objectives=dict.fromkeys(CLASSES, ClassObjectives(2.0, 60.0, 0.2)),
)


def reading(answers: Answers) -> SourceReading:
    """A reading with these newest points: one number, or one for each label."""
    lines = {one: found if isinstance(found, Mapping) else {(): found} for one, found in answers.items()}
    series = {one: Series(TIMES_S, {key: [point] * 2 for key, point in found.items()}) for one, found in lines.items()}
    return SourceReading(series, Health(1002.0), 2.0, "test", range_s=4.0, end_s=1002.0)


def is_favourable(one: Headline) -> bool:
    """Whether a headline finds the server well, by its severity or by its words."""
    return one.severity is Severity.OK or says_well(one.sentence)


def says_well(text: str) -> bool:
    """Whether a text has words that stand only where the server does well."""
    return any(words in text.lower() for words in FAVOURABLE)
