"""The state of each class now, against its objectives: the table under the tiles of the Overview page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum, isfinite

from headway_dashboard.analysis.catalogue import panels, thresholds
from headway_dashboard.analysis.catalogue.slo_panels import LONG_S, SHORT_S, attainment, burn
from headway_dashboard.analysis.queries.conditions import Grown
from headway_dashboard.analysis.queries.expressions import Expression, Metric, Over, Rate
from headway_dashboard.analysis.queries.model import Point
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.server import tile_notes
from headway_dashboard.analysis.server.engine_steps import engine_away
from headway_dashboard.analysis.server.newest_values import Tone, counted_share
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.analysis.units import MISSING, duration, written

MET, BUDGET, BURNS = Over(attainment("both"), SHORT_S), burn(LONG_S), burn(SHORT_S)
_COUNTS = {
    what: Grown(Metric(f"headway_objective_{what}_total", (("objective", ("both",)),), ("class",)), SHORT_S)
    for what in ("met", "judged")
}
TOKENS = Rate(Metric("headway_output_tokens_total", by=("class",)))
EXPRESSIONS: tuple[Expression, ...] = (MET, BUDGET, BURNS, *_COUNTS.values(), TOKENS, panels.QUEUE_AGE_BY_CLASS)
#: From this part of a bound on a figure is near it.
_NEAR = 0.8


@dataclass(frozen=True, slots=True)
class Cell:
    """The text of a cell, and its colour: red beyond a bound, orange near it."""

    text: str
    tone: Tone = "off"


def class_states(
    reading: SourceReading, status: Status, classes: tuple[str, ...], *, current: bool = True
) -> list[dict[str, Cell]]:
    """A row for each class. Rates are over the last 30 s, objectives over five minutes, the budget over an hour.

    A reading that is not ``current`` is not judged.
    """
    rows = [_row(reading, status, name) for name in classes]
    return rows if current else [{title: Cell(cell.text) for title, cell in row.items()} for row in rows]


def _row(reading: SourceReading, status: Status, name: str) -> dict[str, Cell]:
    ttft, between = tile_notes.objectives(reading, status), tile_notes.between_objectives(reading, status)
    whole = fsum(line[-1] or 0.0 for line in reading[TOKENS].lines.values() if line)
    away = engine_away(reading)
    return {
        "Class": Cell(name),
        "Objectives met": _met(reading, name),
        "TTFT p95": _against(reading[panels.TTFT_P95_BY_CLASS].latest(name), ttft, name, away),
        "Between tokens p95": _against(reading[panels.INTER_TOKEN_P95_BY_CLASS].latest(name), between, name, away),
        "No answer": _errors(reading, name),
        "Waiting": _waiting(reading, name),
        "Running": Cell(away or written(reading[panels.IN_FLIGHT_BY_CLASS].latest(name), "count")),
        "Requests": Cell(written(reading[panels.ARRIVALS_BY_CLASS].latest(name), "per_s")),
        "Tokens": Cell(away or _share(reading[TOKENS].latest(name), whole)),
        "Budget left": _budget(reading[BUDGET].latest(name), reading[BURNS].latest(name)),
    }


def _met(reading: SourceReading, name: str) -> Cell:
    share, (met, judged) = reading[MET].latest(name), (reading[count].latest(name) for count in _COUNTS.values())
    if share is None or not judged:
        return Cell(MISSING)
    text = f"{written(share, 'ratio')} ({counted_share(met, judged)})"
    return Cell(text, "off" if share >= thresholds.TARGET_RATIO else "red")


def _against(value: Point, bounds: Mapping[str, float], name: str, away: str) -> Cell:
    """A time beside its objective."""
    bound = bounds.get(name)
    stated = f" / {duration(bound)}" if bound is not None and isfinite(bound) else ""
    if away or value is None:
        return Cell(f"{away or MISSING}{stated}")
    if not stated or bound is None:
        return Cell(duration(value))
    tone: Tone = "red" if value > bound else "orange" if value > _NEAR * bound else "off"
    return Cell(f"{duration(value)}{stated}", tone)


def _errors(reading: SourceReading, name: str) -> Cell:
    share = reading[panels.ERROR_SHARE_BY_CLASS].latest(name)
    counted = counted_share(reading[panels.FAILED_BY_CLASS].latest(name), reading[panels.ENDED_BY_CLASS].latest(name))
    text = written(share, "ratio") + (f" ({counted})" if counted else "")
    return Cell(text, "red" if (share or 0.0) > thresholds.ERROR_RATIO else "off")


def _waiting(reading: SourceReading, name: str) -> Cell:
    waiting, oldest_s = reading[panels.QUEUED_BY_CLASS].latest(name), reading[panels.OLDEST_BY_CLASS].latest(name)
    oldest = f", oldest {duration(oldest_s)}" if waiting and oldest_s else ""
    old = (reading[panels.QUEUE_AGE_BY_CLASS].latest(name) or 0.0) > thresholds.QUEUE_AGE_RATIO
    return Cell(f"{written(waiting, 'count')}{oldest}", "orange" if old else "off")


def _share(value: Point, whole: float) -> str:
    return written(value / whole, "ratio") if value is not None and whole else MISSING


def _budget(burnt: Point, burns: Point) -> Cell:
    """The rest of the error budget of an hour, and its end at the present rate where that is above the allowed one."""
    if burnt is None:
        return Cell(MISSING)
    left = max(0.0, 1.0 - burnt)
    ends = f", ends in {duration(left * LONG_S / burns)}" if left and burns is not None and burns > 1.0 else ""
    return Cell(f"{written(left, 'ratio')}{ends}", "red" if not left else "orange" if left < 1 - _NEAR else "off")
