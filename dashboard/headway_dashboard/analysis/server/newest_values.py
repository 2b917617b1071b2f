"""The newest points of a reading: condition, causes, tiles and the class table. No drawing, no fetching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from headway_dashboard.analysis.catalogue import causes, palette, panels
from headway_dashboard.analysis.catalogue.panels import Panel, Tile, for_classes
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.model import Point, newest, value_of
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.server.condition import Activity, Condition, State, condition
from headway_dashboard.analysis.server.engine_steps import engine_away
from headway_dashboard.analysis.server.instances import away_words
from headway_dashboard.analysis.units import MISSING, Unit, compact, written

#: The tiles of what an engine computes.
OF_ENGINE = ("tokens", "batch", "ttft")
#: Colours of a tile's note: of the past, no judgement, within its bound, beyond it, far beyond it.
Tone = Literal["off", "blue", "green", "orange", "red"]

#: Backends whose memory is that of the processes.
_WITHOUT_GPU = ("cpu", "simulated")


def now(reading: SourceReading, expression: Expression) -> Point:
    """The newest point of an expression without labels; None where it was not measured."""
    return reading[expression].latest()


def running_preset(reading: SourceReading) -> tuple[str, str]:
    """Name and revision of the preset at the last scrape; empty strings if unknown."""
    found, last = ("", ""), (-1, -1)
    for (name, revision), line in reading[panels.PRESET].lines.items():
        at = max((place for place, point in enumerate(line) if point is not None), default=-1)
        if at >= 0 and line[at] == 1 and (at, int(revision or 0)) > last:  # another start begins at revision 1 again
            found, last = (name, revision), (at, int(revision or 0))
    return found


def presets_in_force(reading: SourceReading) -> list[tuple[str, str]]:
    """Name and revision of each preset that runs now: of several servers there may be more than one."""
    return [
        (name, revision) for (name, revision), line in reading[panels.PRESET].lines.items() if line and line[-1] == 1
    ]


def condition_of(reading: SourceReading, now_s: float) -> Condition:
    """The condition the banner shows."""
    activity = Activity(
        ready=now(reading, panels.READY),
        arrivals_per_s=now(reading, panels.ARRIVALS),
        queued=now(reading, panels.QUEUED),
        in_flight=now(reading, panels.IN_FLIGHT),
    )
    found = condition(reading.health, activity, now_s, reading.interval_s)
    missing = away_words(reading, now_s) if found.current else ""
    return replace(found, sentence=f"{missing} {found.sentence}") if missing else found


def causes_now(reading: SourceReading) -> dict[str, float]:
    """Errors a second of each cause, by its words; only what happens now."""
    rates: dict[str, float] = {}
    for labels, line in reading[panels.ERRORS_BY_CAUSE].lines.items():
        if line and (rate := line[-1]):
            words = causes.words(value_of(labels))
            rates[words] = rates.get(words, 0.0) + rate
    return rates


def counted_share(failed: Point, ended: Point) -> str:
    """The failed requests of those that ended: "3 of 15"; empty where none ended, or it is not known."""
    whole = round(ended or 0.0)
    return f"{compact(min(round(failed or 0.0), whole))} of {compact(whole)}" if whole else ""


def classes_of(reading: SourceReading) -> tuple[str, ...]:
    """The class names the server reports, in the usual order."""
    return tuple(palette.class_order({labels[0] for labels in reading[panels.QUEUED_BY_CLASS].lines}))


@dataclass(frozen=True, slots=True)
class TileText:
    """The text of a tile. ``tone`` is the colour of its note: it says whether the value keeps its bound."""

    label: str
    value: str
    explanation: str
    note: str
    tone: Tone = "off"


def tile_text(one: Tile, reading: SourceReading, expression: Expression, state: Condition) -> TileText:
    """A tile's value now; while the server is away the last known one, named as such."""
    line = reading[expression].line()
    value = line[-1] if state.current and line else newest(line)
    text = written(value, one.unit)
    note = "last known" if value is not None and not state.current else ""
    if state.current and one.id in OF_ENGINE and (why := engine_away(reading)):
        value, text = None, why  # rates and quantiles of the last half minute are of an engine that is gone
    elif value is None and state.state is State.NO_TRAFFIC:
        text = "idle" if one.id == "batch" else "no traffic"
    if one.id == "batch" and value is not None and (limit := newest(reading[panels.LIMIT_OF_ONE].line())) is not None:
        text = f"{text} / {compact(limit)}"
    whole = newest(reading[panels.GPU_TOTAL].line()) if one.expression == panels.GPU_USED else None
    if text != MISSING and whole is not None:
        text = f"{text} / {written(whole, one.unit)}"
    return TileText(one.label, text, one.help, note)


def memory_tile(reading: SourceReading) -> Tile:
    """GPU memory where there is a GPU, else the processes' resident memory; the label says which."""
    if not reading[panels.GPU_USED].empty:
        return replace(panels.TILES[-1], label="GPU memory", help=panels.GPU_PANEL.help, expression=panels.GPU_USED)
    on_cpu = any(labels[0] in _WITHOUT_GPU for labels in reading[panels.BACKEND].lines)
    return replace(panels.TILES[-1], label="Memory (CPU)") if on_cpu else panels.TILES[-1]


def memory_panel(reading: SourceReading) -> Panel:
    """The memory chart that fits the server's hardware: never a GPU chart without a GPU."""
    if not reading[panels.GPU_TOTAL].empty:
        return panels.GPU_PANEL
    on_gpu = any(labels[0] not in ("", *_WITHOUT_GPU) for labels in reading[panels.BACKEND].lines)
    return panels.GPU_UNKNOWN_PANEL if on_gpu else panels.CPU_PANEL


def class_rows(reading: SourceReading, classes: tuple[str, ...]) -> list[dict[str, str]]:
    """The class table: one row a class, already in words. Nothing runs while there is no engine."""
    columns: tuple[tuple[str, tuple[Expression, ...], Unit], ...] = (
        ("Waiting", (panels.QUEUED_BY_CLASS,), "count"),
        ("Oldest wait", (panels.OLDEST_BY_CLASS,), "seconds"),
        ("Running", (panels.IN_FLIGHT_BY_CLASS,), "count"),
        ("Requests", (panels.ARRIVALS_BY_CLASS,), "per_s"),
        ("TTFT p50, p95, p99", tuple(panels.TTFT_BY_CLASS.values()), "seconds"),
        ("Prefill p50, p95, p99", tuple(panels.PREFILL_BY_CLASS.values()), "seconds"),
        ("Decode p50, p95, p99", tuple(panels.DECODE_BY_CLASS.values()), "seconds"),
        ("Batches waited p95", (panels.BATCHES_WAITED_BY_CLASS,), "count"),
    )
    away = engine_away(reading)
    return [
        {"Class": name}
        | {title: _all_written([reading[panel].latest(name) for panel in of], unit) for title, of, unit in columns}
        | ({"Running": away} if away else {})
        | {"Error share": _errors(reading, name)}
        for name in classes
    ]


def _errors(reading: SourceReading, name: str) -> str:
    """The error share of a class, with its numbers."""
    counted = counted_share(reading[panels.FAILED_BY_CLASS].latest(name), reading[panels.ENDED_BY_CLASS].latest(name))
    return written(reading[panels.ERROR_SHARE_BY_CLASS].latest(name), "ratio") + (f" ({counted})" if counted else "")


def _all_written(values: Sequence[Point], unit: Unit) -> str:
    """The values of a cell; a dash if none is known."""
    return (
        ", ".join(written(value, unit) for value in values) if any(value is not None for value in values) else MISSING
    )


def limited_to(panel: Panel, classes: tuple[str, ...]) -> Panel:
    """The panel for these classes only."""
    lines = tuple(replace(line, expression=for_classes(line.expression, classes)) for line in panel.lines)
    return replace(panel, lines=lines)
