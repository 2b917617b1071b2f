"""The vertical marks of every time chart: preset switches, engine states, servers that appear, are gone or restart,
warm-ups, and alerts that begin to hold.

Each kind has a sign, a colour and a dash of its own, so that it is told apart without colours too. Marks that are close
are merged: a chart never has more than ``MOST``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headway_dashboard.analysis.catalogue import engine_panels, palette
from headway_dashboard.analysis.diagnosis import alerts
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.model import UP, Mark, MarkKind, Series, newest
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.server import switches
from headway_dashboard.analysis.server.fleet import scale_events

#: The questions whose answers all marks need, but those of alerts.
EXPRESSIONS: tuple[Expression, ...] = (
    *switches.EXPRESSIONS,
    engine_panels.WARMUP_S,
    *scale_events.EXPRESSIONS,
)
MOST = 12
#: Over a longer time the points are further apart than the conditions of the alerts look back.
_ALERTS_UP_TO_S = 6 * 3600.0
_TROUBLE = {state: words for state, words in palette.ENGINE_WORDS.items() if state != UP}


@dataclass(frozen=True, slots=True)
class Look:
    """The form of the marks of one kind, and their name where there is room."""

    sign: str
    words: str
    colour: str
    dash: str


#: By kind, the one that gives merged marks their look first.
LOOKS: Mapping[MarkKind, Look] = {
    "engine": Look("▲", "Engine", palette.RED, "solid"),
    "server": Look("■", "Server", palette.PURPLE, "longdash"),
    "preset": Look("◆", "Preset", palette.BLUE, "dot"),
    "alert": Look("!", "Alert", palette.ORANGE, "dash"),
    "warm-up": Look("●", "Warm-up", palette.GREEN, "dashdot"),
}


@dataclass(frozen=True, slots=True)
class MarkGroup:
    """The marks that one vertical line stands for, in the order of their times; it stands at the first of them."""

    marks: tuple[Mark, ...]

    @property
    def time_s(self) -> float:
        """The time at which the line stands."""
        return self.marks[0].time_s

    @property
    def _first(self) -> Mark:
        kinds = list(LOOKS)
        return min(self.marks, key=lambda mark: kinds.index(mark.kind))

    @property
    def look(self) -> Look:
        """The look of its most important mark."""
        return LOOKS[self._first.kind]

    @property
    def label(self) -> str:
        """The words above the line."""
        more = f" +{len(self.marks) - 1}" if len(self.marks) > 1 else ""
        return f"{self.look.sign} {self._first.label}{more}"

    @property
    def words(self) -> tuple[str, ...]:
        """Each mark in full, with its kind."""
        return tuple(dict.fromkeys(_in_full(mark) for mark in self.marks))


def _in_full(mark: Mark) -> str:
    name = LOOKS[mark.kind].words
    return f"{name} {mark.of}: {mark.label}" if mark.of else f"{name}: {mark.label}"


def asked(range_s: float) -> tuple[Expression, ...]:
    """The expressions that a reading of this length needs for its marks: none of alerts beyond some hours."""
    return (*EXPRESSIONS, *(alerts.EXPRESSIONS if range_s <= _ALERTS_UP_TO_S else ()))


def marks_of(history: SourceReading) -> list[Mark]:
    """The marks of every kind; ``history`` holds what was ``asked``."""
    presets, states = switches.switches(history), switches.engine_onsets(history, _TROUBLE)
    servers, warmups = scale_events.scale_events(history), warmup_marks(history[engine_panels.WARMUP_S])
    return sorted((*presets, *states, *servers, *warmups, *alerts.alert_marks(history)), key=lambda mark: mark.time_s)


def warmup_marks(durations: Series) -> list[Mark]:
    """The ends of warm-ups. Lines are the durations of its stages, which are written when a stage has ended.

    The first values seen are where our knowledge begins, not a warm-up.
    """
    marks: list[Mark] = []
    before: dict[str, float] = {}
    known = False
    for index, time_s in enumerate(durations.times_s):
        now = {labels[0]: line[index] for labels, line in durations.lines.items()}
        changed = [stage for stage, took_s in now.items() if took_s is not None and before.get(stage) != took_s]
        if changed and known:
            marks.append(Mark(time_s, "warm-up ended", "warm-up"))
        before |= {stage: took_s for stage, took_s in now.items() if took_s is not None}
        known = known or bool(before)
    return marks


def merged(marks: Iterable[Mark], range_s: float) -> list[MarkGroup]:
    """The marks as at most ``MOST`` groups: one that is near the first of a group belongs to it."""
    near_s = range_s / (MOST - 1)
    groups: list[list[Mark]] = []
    for mark in sorted(marks, key=lambda mark: mark.time_s):
        if groups and mark.time_s - groups[-1][0].time_s < near_s:
            groups[-1].append(mark)
        else:
            groups.append([mark])
    return [MarkGroup(tuple(group)) for group in groups]


def inside(marks: Sequence[Mark], reading: SourceReading) -> list[Mark]:
    """The marks that are in the time of a reading."""
    return [mark for mark in marks if reading.end_s - reading.range_s <= mark.time_s <= reading.end_s]


def last_change_s(marks: Sequence[Mark], changed_s: Series) -> float | None:
    """The time of the last preset change: that of the last mark, else what the server tells; None: not known."""
    told_s = newest(changed_s.line())
    seen_s = [mark.time_s for mark in marks if mark.kind == "preset"]
    return seen_s[-1] if seen_s else told_s or None
