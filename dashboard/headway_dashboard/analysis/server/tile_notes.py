"""The notes of the tiles: which classes a value is of, and whether it keeps its bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite

from headway_dashboard.analysis.catalogue import panels, thresholds
from headway_dashboard.analysis.catalogue.panels import Tile, for_classes
from headway_dashboard.analysis.queries.expressions import Expression, Gauge, Metric
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.server.condition import Condition
from headway_dashboard.analysis.server.engine_steps import engine_away
from headway_dashboard.analysis.server.newest_values import TileText, Tone, counted_share, presets_in_force
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.analysis.units import compact
from headway_dashboard.analysis.view import View

#: The objectives of the first token and of the time between tokens on this engine, by class, in seconds.
STATED = tuple(
    Gauge(Metric("headway_objective_seconds", (("objective", (name,)),), ("class",)), largest=True)
    for name in ("first_token", "inter_token")
)
OBJECTIVE, INTER_TOKEN_OBJECTIVE = STATED

EXPRESSIONS: tuple[Expression, ...] = (
    *STATED,
    panels.TTFT_P95_BY_CLASS,
    panels.INTER_TOKEN_P95_BY_CLASS,
    panels.QUEUE_AGE_BY_CLASS,
    panels.QUEUED,
    panels.LIMIT,
    panels.ERROR_SHARE_BY_CLASS,
)
#: The same for the classes that are chosen.
OF_CLASSES: tuple[Expression, ...] = (panels.ERROR_SHARE, panels.ENDED, panels.FAILED)

Judgement = tuple[str, Tone]
_NONE: Judgement = ("", "blue")


def noted(text: TileText, one: Tile, reading: SourceReading, status: Status, state: Condition, view: View) -> TileText:
    """The tile with its note; an existing note ("last known") stays. ``reading`` has ``EXPRESSIONS``."""
    if text.note or not state.current:
        return text
    judge = _JUDGES.get(one.id)
    words, tone = _NONE if judge is None else judge(reading, status, view)
    notes = (_classes(one, view), words)
    return replace(text, note=" · ".join(note for note in notes if note), tone=tone)


def _classes(one: Tile, view: View) -> str:
    if not view.classes:
        return ""
    return f"{', '.join(view.classes)} only" if one.expression.metric.name in panels.BY_CLASS else "all classes"


def _first_token(reading: SourceReading, status: Status, view: View) -> Judgement:
    """Each class is compared with its own objectives; the value of the tile is of all together. First tokens of a class
    that is refused are those of the few that were served.
    """
    if engine_away(reading):
        return _NONE
    known = objectives(reading, status)
    compared = _measured(reading, panels.TTFT_P95_BY_CLASS, known, view)
    over = [name for name, point in compared.items() if point > known[name]]
    if over:
        return f"over objective: {', '.join(over)}", "red"
    between = between_objectives(reading, status)
    paced = _measured(reading, panels.INTER_TOKEN_P95_BY_CLASS, between, view)
    if slow := [name for name, point in paced.items() if point > between[name]]:
        return f"in time; between tokens over objective: {', '.join(slow)}", "red"
    errors = {name: reading[panels.ERROR_SHARE_BY_CLASS].latest(name) or 0.0 for name in _shown(view)}
    if lost := [name for name, share in errors.items() if share > thresholds.ERROR_RATIO]:
        return f"of those served; errors: {', '.join(lost)}", "orange"
    return ("within objectives", "green") if compared else _NONE


def _measured(
    reading: SourceReading, figure: Expression, objectives: Mapping[str, float], view: View
) -> dict[str, float]:
    """A figure of each class that has an objective for it."""
    measured = {name: reading[figure].latest(name) for name in _shown(view)}
    return {name: point for name, point in measured.items() if point is not None and name in objectives}


def objectives(reading: SourceReading, status: Status) -> dict[str, float]:
    """The objective of the first token of each class that states one, in seconds."""
    return _stated(reading, OBJECTIVE, {name: objective.ttft_slo_s for name, objective in status.objectives.items()})


def between_objectives(reading: SourceReading, status: Status) -> dict[str, float]:
    """The objective of the time between tokens of each class that states one, in seconds."""
    by_status = {name: objective.inter_token_slo_s for name, objective in status.objectives.items()}
    return _stated(reading, INTER_TOKEN_OBJECTIVE, by_status)


def _stated(reading: SourceReading, figure: Expression, by_status: Mapping[str, float | None]) -> dict[str, float]:
    """By the status, else by the metrics; servers with different presets have no objective in common."""
    together = len({name for name, _ in presets_in_force(reading)}) < 2
    by_metrics = {labels[0]: line[-1] for labels, line in reading[figure].lines.items() if line and together}
    known = {**by_metrics, **by_status}
    return {name: bound_s for name, bound_s in known.items() if bound_s is not None and isfinite(bound_s)}


def _oldest(reading: SourceReading, status: Status, view: View) -> Judgement:
    ages = {name: reading[panels.QUEUE_AGE_BY_CLASS].latest(name) or 0.0 for name in _shown(view)}
    old = [name for name, age in ages.items() if age > thresholds.QUEUE_AGE_RATIO]
    return (f"too old: {', '.join(old)}", "orange") if old else _NONE


def _queue(reading: SourceReading, status: Status, view: View) -> Judgement:
    queued, limit = reading[panels.QUEUED].latest(), reading[panels.LIMIT].latest()
    if queued is None or not limit or queued <= thresholds.QUEUE_BATCHES * limit:
        return _NONE
    return f"over {thresholds.QUEUE_BATCHES} batches", "orange"


def _errors(reading: SourceReading, status: Status, view: View) -> Judgement:
    share, ended, failed = (reading[for_classes(figure, view.classes)].latest() for figure in OF_CLASSES)
    counted = counted_share(failed, ended)
    if share is None or share <= thresholds.ERROR_RATIO:
        return counted, "blue"
    over = f"over {compact(100 * thresholds.ERROR_RATIO)} %"
    return f"{counted}, {over}" if counted else over, "red"


def _shown(view: View) -> tuple[str, ...]:
    return view.classes or view.known


_JUDGES: Mapping[str, Callable[[SourceReading, Status, View], Judgement]] = {
    "ttft": _first_token,
    "oldest": _oldest,
    "queue": _queue,
    "errors": _errors,
}
