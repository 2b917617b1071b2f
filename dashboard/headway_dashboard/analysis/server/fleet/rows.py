"""The table of several servers: one row each, with a mark where a figure stands out, and a last row for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.queries.model import Point
from headway_dashboard.analysis.queries.reading import Health, SourceReading
from headway_dashboard.analysis.server.condition import Activity, Condition
from headway_dashboard.analysis.server.engine_steps import WORDS
from headway_dashboard.analysis.server.fleet import columns
from headway_dashboard.analysis.server.fleet.columns import COLUMNS, HEADINGS, Cell, Column
from headway_dashboard.analysis.server.fleet.outliers import FAR_RATIO, Side, differing, standing_out
from headway_dashboard.analysis.server.instances import condition_of_one
from headway_dashboard.analysis.units import MISSING, compact, written

#: Beside a value that stands out.
MARKS: Mapping[Side, str] = {"above": "▲", "below": "▼"}
_DIFFERS = "≠"


@dataclass(frozen=True, slots=True)
class Rows:
    """The row of each server by its name, that of all together, and what the marks mean (empty: none is possible)."""

    rows: Mapping[str, tuple[Cell, ...]]
    all: tuple[Cell, ...]
    rule: str


def fleet_rows(reading: SourceReading, now_s: float, zone: tzinfo) -> Rows:
    """The rows of a reading, which holds ``columns.EXPRESSIONS``. Only servers that answer are compared."""
    states = {name: _state(reading, name, now_s) for name in reading.instances}
    current = [name for name, state in states.items() if state.current]
    values = {column.title: {name: _value(reading, column, name) for name in current} for column in COLUMNS}
    marks = {
        column.title: standing_out(values[column.title], column.bound) for column in COLUMNS if column.bound is not None
    }
    presets = {name: preset_of(reading, name) for name in current}
    versions = {name: version_of(reading, name) for name in current}
    other_presets = differing({name: preset for name, (preset, _) in presets.items()})
    other_versions = differing(versions)
    rows: dict[str, tuple[Cell, ...]] = {}
    for name, state in states.items():
        if not state.current:
            rows[name] = _away(reading, name, state, now_s, zone)
            continue
        preset, revision = presets[name]
        rows[name] = (
            Cell(name, name),
            _state_cell(reading, name, state),
            _ready_cell(reading[columns.READY].latest(name)),
            *(
                _figure(reading, column, name, values[column.title][name], marks[column.title].get(name))
                for column in COLUMNS
            ),
            _differing(f"{preset} · {revision}" if preset else "", name in other_presets),
            _differing(versions[name], name in other_versions),
            _since(reading[columns.STARTED].latest(name), now_s, zone),
        )
    return Rows(rows, _all(reading, len(current)), rule_words(len(current)) if len(current) > 1 else "")


def as_they_were(reading: SourceReading) -> SourceReading:
    """A reading of a fixed time with the servers as they were at its end; whether a source reaches them is current."""
    answered = {labels[0] for labels, line in reading[columns.READY].lines.items() if line and line[-1] is not None}
    there = Health(last_ok_s=reading.end_s)
    away = Health(failures=2, trouble="refused", detail="no figures of that time")
    names = dict.fromkeys((*reading.instances, *sorted(answered)))
    return replace(reading, instances={name: there if name in answered else away for name in names})


def rule_words(servers: int) -> str:
    """The meaning of the marks, for this many servers that answer."""
    least = ", ".join(
        f"{column.title} {written(column.bound.least, column.unit)}" for column in COLUMNS if column.bound is not None
    )
    if servers == 2:
        return (
            f"{MARKS['above']}: more than three times the other server's, and at least twice this above it: {least}. "
            f"{_DIFFERS}: the servers differ."
        )
    share = written(FAR_RATIO, "ratio")
    return (
        f"{MARKS['above']} {MARKS['below']}: more than {share} above (of requests and seats also below) the median of "
        f"the servers, and by more than: {least}. {_DIFFERS}: not as on most servers."
    )


def preset_of(reading: SourceReading, name: str) -> tuple[str, str]:
    """The preset in force on a server, and its revision; empty where it is not known."""
    found = [
        labels[1:]
        for labels, line in reading[columns.PRESET].lines.items()
        if labels[0] == name and line and line[-1] == 1
    ]
    preset, revision = max(found, key=lambda item: int(item[1]) if item[1].isdigit() else -1, default=("", ""))
    return preset, revision


def version_of(reading: SourceReading, name: str) -> str:
    """The version of Headway on a server; empty where it is not known."""
    lines = reading[columns.BUILD].lines
    return next((labels[1] for labels, line in lines.items() if labels[0] == name and line and line[-1] == 1), "")


def _state(reading: SourceReading, name: str, now_s: float) -> Condition:
    activity = Activity(
        ready=reading[columns.READY].latest(name),
        arrivals_per_s=reading[columns.REQUESTS.each].latest(name),
        queued=reading[columns.WAITING.each].latest(name),
        in_flight=reading[columns.IN_FLIGHT].latest(name),
    )
    return condition_of_one(reading, name, now_s, activity)


def _value(reading: SourceReading, column: Column, name: str) -> Point:
    if column.of_steps and _engine_words(reading, name):
        return None
    return reading[column.each].latest(name)


def _engine_words(reading: SourceReading, name: str) -> str:
    """The reason why this server's engine makes no steps; empty while it does."""
    states = reading[columns.ENGINE]
    return next((words for state, words in WORDS.items() if states.latest(name, state) == 1), "")


def _state_cell(reading: SourceReading, name: str, state: Condition) -> Cell:
    engine = _engine_words(reading, name)
    words = state.state.capitalize()
    text = f"{words}, {engine}" if engine else words
    return Cell(text, text, state.sentence)


def _ready_cell(ready: Point) -> Cell:
    return Cell(MISSING) if ready is None else Cell("yes" if ready > 0 else "no", ready)


def _figure(reading: SourceReading, column: Column, name: str, value: Point, side: Side | None) -> Cell:
    text = _of_limit(column, value, reading[columns.LIMIT].latest(name))
    return Cell(text if side is None else f"{MARKS[side]} {text}", value)


def _of_limit(column: Column, value: Point, limit: Point) -> str:
    text = written(value, column.unit)
    return f"{text} / {compact(limit)}" if column is columns.SEATS and value is not None and limit is not None else text


def _differing(text: str, differs: bool) -> Cell:
    return Cell(f"{_DIFFERS} {text}" if differs else text or MISSING, text or None)


def _since(time_s: Point, now_s: float, zone: tzinfo) -> Cell:
    """An instant on the clock of a zone; with its date where that is another day."""
    if time_s is None:
        return Cell(MISSING)
    then, now = datetime.fromtimestamp(time_s, zone), datetime.fromtimestamp(now_s, zone)
    return Cell(f"{then:%H:%M:%S}" if then.date() == now.date() else f"{then:%Y-%m-%d %H:%M}", time_s)


def _away(reading: SourceReading, name: str, state: Condition, now_s: float, zone: tzinfo) -> tuple[Cell, ...]:
    """A server without current figures: none of the past stands beside those of the others."""
    health, words = reading.instances[name], state.state.capitalize()
    gap = (Cell(MISSING),) * (len(HEADINGS) - 4)
    return (
        Cell(name, name),
        Cell(words, words, health.detail or state.sentence),
        Cell(MISSING),
        *gap,
        _since(health.failing_since_s, now_s, zone),
    )


def _all(reading: SourceReading, current: int) -> tuple[Cell, ...]:
    """The figures of all servers that answer, merged as on every other page."""
    ready = sum(reading[columns.READY].latest(name) == 1 for name in reading.instances)
    limit = reading[panels.LIMIT].latest()
    figures = (
        Cell(_of_limit(column, value := reading[column.of].latest() if current else None, limit), value)
        for column in COLUMNS
    )
    rest = (Cell(""),) * (len(HEADINGS) - 3 - len(COLUMNS))
    answer = f"{current} of {len(reading.instances)} answer"
    return (Cell("All servers"), Cell(answer), Cell(f"{ready}"), *figures, *rest)
