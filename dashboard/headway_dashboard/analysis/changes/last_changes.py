"""The last changes of a server, by its metrics: preset switches, and changes of the engine's state."""

from __future__ import annotations

from datetime import UTC, datetime

from headway_dashboard.analysis.catalogue import palette, panels
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.model import Mark, change_marks, onset_marks
from headway_dashboard.analysis.queries.reading import SourceReading

EXPRESSIONS: tuple[Expression, ...] = (panels.PRESETS_SEEN, panels.ENGINE_STATES_SEEN)
MOST = 5


def change_rows(history: SourceReading) -> list[dict[str, str]]:
    """The last changes in the time of a reading, the newest first."""
    presets = [Mark(mark.time_s, f"Preset {mark.label}") for mark in change_marks(history[panels.PRESETS_SEEN])]
    states = onset_marks(history[panels.ENGINE_STATES_SEEN], palette.ENGINE_WORDS)
    newest = sorted((*presets, *states), key=lambda mark: mark.time_s, reverse=True)[:MOST]
    return [
        {"When (UTC)": _clock(mark.time_s), "Change": f"{mark.label[:1].upper()}{mark.label[1:]}"} for mark in newest
    ]


def _clock(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
