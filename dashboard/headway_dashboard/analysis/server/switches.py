"""The switches of presets and the states of engines over time, of each server by itself.

Read together, two servers with different revisions would look like one that switches between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.metric import by_instance
from headway_dashboard.analysis.queries.model import Mark, Point, Series, change_marks, onset_marks
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.server.identity import LAST_CHANGE

PRESETS, STATES, CHANGED = (
    by_instance(asked) for asked in (panels.PRESETS_SEEN, panels.ENGINE_STATES_SEEN, LAST_CHANGE)
)
EXPRESSIONS: tuple[Expression, ...] = (PRESETS, STATES, CHANGED)
#: A change is seen in a scrape so many seconds later at most, beside the step of the chart.
_SEEN_WITHIN_S = 120.0


def switches(history: SourceReading) -> list[Mark]:
    """The preset switches, each at the time that its server tells where it does; of several servers with the name."""
    told = history[CHANGED]
    return [
        replace(mark, time_s=_exact(mark.time_s, before_s, told.line(name)))
        for name, marks in _of_each(history[PRESETS], change_marks)
        for before_s, mark in zip([0.0, *(mark.time_s for mark in marks)], marks, strict=False)
    ]


def engine_onsets(history: SourceReading, words: Mapping[str, str]) -> list[Mark]:
    """The beginnings of the engines' states that have words."""
    return [mark for _, marks in _of_each(history[STATES], lambda states: onset_marks(states, words)) for mark in marks]


def _of_each(series: Series, read: Callable[[Series], list[Mark]]) -> Iterator[tuple[str, list[Mark]]]:
    """The marks of each server."""
    names = dict.fromkeys(labels[0] for labels in series.lines)
    for name in names:
        own = {labels[1:]: line for labels, line in series.lines.items() if labels[0] == name}
        marks = read(Series(series.times_s, own))
        yield name, [replace(mark, of=name) for mark in marks] if len(names) > 1 else marks


def _exact(seen_s: float, before_s: float, told: Sequence[Point]) -> float:
    """The time of a change that was seen at ``seen_s``, after the one at ``before_s``."""
    earliest_s = max(before_s, seen_s - _SEEN_WITHIN_S)
    return max((time_s for time_s in told if time_s is not None and earliest_s < time_s <= seen_s), default=seen_s)
