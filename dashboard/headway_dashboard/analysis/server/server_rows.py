"""The table of several servers: one row each, with a mark where a figure stands out, and those apart that are away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.catalogue.thresholds import ERROR_RATIO
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.model import Point
from headway_dashboard.analysis.queries.reading import Reading
from headway_dashboard.analysis.server import identity
from headway_dashboard.analysis.server.condition import Activity, Condition, State
from headway_dashboard.analysis.server.engine_steps import WORDS
from headway_dashboard.analysis.server.imbalance import FAR_RATIO, Bound, Side, differing, standing_out
from headway_dashboard.analysis.server.instances import by_instance, condition_of_one
from headway_dashboard.analysis.units import Unit, written

#: Beside a value that stands out.
MARKS: Mapping[Side, str] = {"above": "▲", "below": "▼"}
_DIFFERS = "≠"
_STATES = {
    State.LIVE: "Live",
    State.NO_TRAFFIC: "No traffic",
    State.NOT_READY: "Not ready",
    State.STALE: "Stale",
    State.DOWN: "Down",
    State.CONNECTING: "Connecting",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of the table. ``of_steps``: it is of the engine's steps, and of the past while there is no engine."""

    title: str
    expression: Expression
    unit: Unit
    bound: Bound
    of_steps: bool = False


COLUMNS = (
    Column("Requests", by_instance(panels.ARRIVALS), "per_s", Bound(1.0, below=True)),
    Column("Batch", by_instance(panels.BATCH), "count", Bound(4.0, below=True), of_steps=True),
    Column("Waiting", by_instance(panels.QUEUED), "count", Bound(5.0)),
    Column("KV cache", by_instance(panels.KV_USE), "ratio", Bound(0.2), of_steps=True),
    Column("TTFT p95", by_instance(panels.TTFT[0.95]), "seconds", Bound(0.5)),
    Column("Error share", by_instance(panels.ERROR_SHARE), "ratio", Bound(ERROR_RATIO)),
)
_READY, _IN_FLIGHT, _PRESET, _BUILD, _ENGINE = (
    by_instance(one) for one in (panels.READY, panels.IN_FLIGHT, panels.PRESET, identity.BUILD, panels.ENGINE_STATE)
)
EXPRESSIONS: tuple[Expression, ...] = (
    *(column.expression for column in COLUMNS), _READY, _IN_FLIGHT, _PRESET, _BUILD, _ENGINE,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rows:
    """The servers that answer, the servers that do not, and what the marks mean."""

    current: list[dict[str, str]]
    away: list[dict[str, str]]
    rule: str


def server_rows(reading: Reading, now_s: float) -> Rows:
    """The rows of a reading, which holds ``EXPRESSIONS``. Only servers that answer are compared."""
    states = {name: _state(reading, name, now_s) for name in reading.instances}
    current = [name for name, one in states.items() if one.current]
    values = {column.title: {name: _value(reading, column, name) for name in current} for column in COLUMNS}
    marks = {column.title: standing_out(values[column.title], column.bound) for column in COLUMNS}
    presets = {name: _preset(reading, name) for name in current}
    versions = {name: _version(reading, name) for name in current}
    others = differing({name: preset for name, (preset, _) in presets.items()}), differing(versions)
    rows = []
    for name in current:
        figures = {
            column.title: _marked(written(values[column.title][name], column.unit), marks[column.title].get(name))
            for column in COLUMNS
        }
        preset, revision = presets[name]
        rows.append(
            {"Server": name, "State": _words(reading, states[name], name)}
            | figures
            | {
                "Preset": _different(f"{preset} · {revision}" if preset else "", name in others[0]),
                "Version": _different(versions[name], name in others[1]),
            }
        )
    away = [_away_row(reading, name, one) for name, one in states.items() if not one.current]
    return Rows(rows, away, rule_words(len(current)))


def rule_words(servers: int) -> str:
    """What the marks mean, for so many servers that answer."""
    least = ", ".join(f"{column.title.lower()} {written(column.bound.least, column.unit)}" for column in COLUMNS)
    if servers == 2:
        return (
            f"{MARKS['above']}: more than three times the other server's, and at least twice this above it: {least}. "
            f"{_DIFFERS}: the servers differ."
        )
    share = written(FAR_RATIO, "ratio")
    return (
        f"{MARKS['above']} {MARKS['below']}: more than {share} above (of requests and batch also below) the median of "
        f"the servers, and by more than: {least}. {_DIFFERS}: not as on most servers."
    )


def _state(reading: Reading, name: str, now_s: float) -> Condition:
    requests, _, waiting, *_ = COLUMNS
    activity = Activity(
        ready=reading[_READY].latest(name),
        arrivals_per_s=reading[requests.expression].latest(name),
        queued=reading[waiting.expression].latest(name),
        in_flight=reading[_IN_FLIGHT].latest(name),
    )
    return condition_of_one(reading, name, now_s, activity)


def _value(reading: Reading, column: Column, name: str) -> Point:
    if column.of_steps and _engine_words(reading, name):
        return None
    return reading[column.expression].latest(name)


def _engine_words(reading: Reading, name: str) -> str:
    """Why this server's engine makes no steps; empty while it does."""
    states = reading[_ENGINE]
    return next((words for state, words in WORDS.items() if states.latest(name, state) == 1), "")


def _words(reading: Reading, state: Condition, name: str) -> str:
    engine = _engine_words(reading, name)
    return f"{_STATES[state.state]}, {engine}" if engine else _STATES[state.state]


def _preset(reading: Reading, name: str) -> tuple[str, str]:
    """The preset in force on a server, and its revision; empty where it is not known."""
    found = [
        labels[1:] for labels, line in reading[_PRESET].lines.items() if labels[0] == name and line and line[-1] == 1
    ]
    preset, revision = max(found, key=lambda one: int(one[1]) if one[1].isdigit() else -1, default=("", ""))
    return preset, revision


def _version(reading: Reading, name: str) -> str:
    lines = reading[_BUILD].lines
    return next((labels[1] for labels, line in lines.items() if labels[0] == name and line and line[-1] == 1), "")


def _away_row(reading: Reading, name: str, state: Condition) -> dict[str, str]:
    return {"Server": name, "State": _STATES[state.state], "Why": reading.instances[name].detail or state.sentence}


def _marked(text: str, side: Side | None) -> str:
    return text if side is None else f"{MARKS[side]} {text}"


def _different(text: str, differs: bool) -> str:
    return f"{_DIFFERS} {text}" if differs else text
