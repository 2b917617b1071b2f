"""What do the numbers and the server's own words say together of engine, ladder, warm-up and limit?

Between the sources and the views, as ``watch``: no drawing, no fetching.
"""

from __future__ import annotations

from collections.abc import Iterable

from headway.api.schema import FallbackState, WarmupStatus
from headway_dashboard.analysis import engine_panels, palette, panels
from headway_dashboard.analysis.condition import Condition
from headway_dashboard.analysis.model import Mark, Point, change_marks, held_s, newest, onset_marks
from headway_dashboard.analysis.notices import STAGES, Notice, Situation, notices, stage_words
from headway_dashboard.analysis.reading import Reading
from headway_dashboard.analysis.status import Status
from headway_dashboard.analysis.units import MISSING, compact, duration
from headway_dashboard.analysis.watch import TileText, now
from headway_policies.limits import WHYS

NORMAL = "normal"
_QUIET = "quiet"
_MOST_MOVES = 10

#: What gives way on each rung, as a reader says it, the mildest first.
RUNGS = {
    NORMAL: "it takes nothing from any request",
    "cap": "answers are shorter",
    "bypass": "a few requests go beside the batch that runs",
    "shed": "whole classes are refused",
    "divert": "another model answers",
    "pause": "everybody waits",
}
_ALWAYS_OPEN = (NORMAL, "pause")

_TRIGGERS = {
    "queue_age": "the age of the queue",
    "kv_pressure": "a full KV cache",
    "errors": "too many errors",
    "engine_down": "an engine that is down",
    "operator": "an operator's order",
    _QUIET: "all quiet again",
}


def engine_standing(reading: Reading) -> str:
    """How the engine stands: up, silent, restarting or lost; empty where nobody says."""
    lines = reading[panels.STANDING].lines
    return next((labels[0] for labels, line in lines.items() if line and line[-1] == 1), "")


def rung(reading: Reading) -> str:
    """The rung of the fallback ladder, by the numbers; empty where they do not tell."""
    at = now(reading, panels.RUNG)
    steps = engine_panels.RUNG_PANEL.steps
    return steps[int(at)] if at is not None and 0 <= at < len(steps) else ""


def situation(reading: Reading) -> Situation:
    """How the engine stands, by the numbers."""
    standing = engine_standing(reading)
    series = reading[panels.STANDING]
    return Situation(
        ready=now(reading, panels.READY),
        standing=standing,
        since_s=held_s(series.times_s, series.line(standing)) if standing else None,
        queued=now(reading, panels.QUEUED),
        deaths=now(reading, panels.DEATHS),
    )


def notices_of(reading: Reading, told: Status, state: Condition) -> list[Notice]:
    """What to say above everything. Old numbers say nothing of now."""
    return notices(situation(reading), told) if state.current else []


def marks_of(reading: Reading) -> list[Mark]:
    """The vertical lines of every chart: another preset, and trouble with the engine."""
    trouble = {"silent": "engine silent", "restarting": "engine restarts", "lost": "engine lost"}
    marks = [*change_marks(reading[panels.PRESET]), *onset_marks(reading[panels.STANDING], trouble)]
    return sorted(marks, key=lambda mark: mark.time_s)


def step_rows(reading: Reading) -> list[dict[str, str]]:
    """How often the ladder moved where, and why, since the server started; only what has happened."""
    counted = [
        (rung_place(labels[0]), labels[0], labels[1], number)
        for labels, line in reading[engine_panels.RUNG_STEPS].lines.items()
        if (number := newest(line))
    ]
    return [
        {"To": word, "Why": trigger_words(trigger), "Times": compact(number)}
        for _, word, trigger, number in sorted(counted)
    ]


def move_rows(ladder: FallbackState) -> list[dict[str, str]]:
    """The ladder's last moves, newest first."""
    return [
        {
            "When (UTC)": one.time.replace("T", " ").removesuffix("Z").partition(".")[0],
            "Move": f"{one.before} → {one.after}",
            "Why": trigger_words(one.trigger),
        }
        for one in ladder.moves[:_MOST_MOVES]
    ]


def ladder_words(ladder: FallbackState, by_numbers: str = "") -> str:
    """Where the ladder stands, who put it there, and what it takes; empty where nobody says."""
    word = ladder.rung or by_numbers
    if not word:
        return ""
    if ladder.ordered:
        why = " by an operator's order, until it is let move by itself again"
    elif ladder.trigger in _TRIGGERS and ladder.trigger != _QUIET and word != NORMAL:
        why = f" because of {trigger_words(ladder.trigger)}"
    else:
        why = ""
    taken = taken_words(ladder.in_force or (word,))
    return f"The fallback ladder stands on **{word}**{why}: {taken}."


def taken_words(rungs: Iterable[str]) -> str:
    """What gives way while these rungs are in force."""
    taken = [RUNGS[word] for word in rungs if word in RUNGS and word != NORMAL]
    return ", ".join(taken) or RUNGS[NORMAL]


def orderable(ladder: FallbackState) -> tuple[str, ...]:
    """The rungs an operator may order: those that would change something, and the two that always do."""
    return tuple(word for word in RUNGS if not ladder.usable or word in (*_ALWAYS_OPEN, *ladder.usable))


def order_words(ladder: FallbackState, chosen: str) -> str:
    """What an ordered rung takes: an order puts all up to it in force."""
    upto = rung_place(chosen)
    return taken_words(word for word in orderable(ladder) if rung_place(word) <= upto)


def rung_place(word: str) -> int:
    """The place of a rung on the ladder, the mildest first; unknown ones last."""
    steps = engine_panels.RUNG_PANEL.steps
    return steps.index(word) if word in steps else len(steps)


def trigger_words(trigger: str) -> str:
    """Why the ladder moved, as a reader says it."""
    return _TRIGGERS.get(trigger) or trigger.replace("_", " ")


def warmup_rows(reading: Reading, told: WarmupStatus) -> list[dict[str, str]]:
    """The stages of the warm-up in their order: every round where the server tells, else the last from the numbers."""
    last_s = {labels[0]: newest(line) for labels, line in reading[engine_panels.WARMUP_S].lines.items()}
    rounds: dict[str, list[float]] = dict(told.stages) or {
        stage: [took_s] for stage, took_s in last_s.items() if took_s is not None
    }
    rows = []
    for stage in [*STAGES, *(one for one in rounds if one not in STAGES)]:
        took_s = rounds.get(stage, [])
        if not took_s and stage not in told.refused:
            continue
        rows.append(
            {
                "Stage": stage_words(stage),
                "Rounds": compact(len(took_s)) if told.stages else MISSING,
                "Took": " → ".join(duration(one) for one in took_s) or "the engine refuses it",
            }
        )
    return rows


def warmup_words(told: WarmupStatus) -> str:
    """How the warm-up ended, or how it stands, in a sentence or two; empty where the server does not tell."""
    match told.state:
        case "":
            return ""
        case "done" if told.settled:
            end = "Done: the last two batches took equally long."
        case "done":
            end = "Done, although the last two batches did not take equally long."
        case "skipped":
            return "Skipped, as the server was told to."
        case _:
            end = f"{told.state.capitalize()}."
    size = f" A full batch has {told.batch_size} requests." if told.batch_size else ""
    attempt = f" Attempt {told.attempt}." if told.attempt > 1 else ""
    reason = f" {told.reason[:1].upper()}{told.reason[1:]}." if told.reason and told.state != "done" else ""
    return f"{end}{attempt}{reason}{size}"


def limit_words(reading: Reading, told: Status) -> str:
    """The limit in one line: live, proposed, ceiling, and why it is what it is."""
    figures = [("live", panels.LIMIT), ("proposed", engine_panels.PROPOSED), ("ceiling", panels.CEILING)]
    line = " · ".join(f"{words} **{_compact(now(reading, one))}**" for words, one in figures)
    why = WHYS.get(told.limit_reason) or told.limit_reason
    return f"{line} · {why}" if why else line


def prediction_words(reading: Reading) -> str:
    """On how many cases the prediction errors rest."""
    lines = reading[engine_panels.PREDICTION_SAMPLES].lines
    say = palette.words_of(palette.PREDICTIONS)
    known = [f"{say(labels[0])}: {compact(number)} cases" for labels, line in lines.items() if (number := newest(line))]
    return f"The predictions were compared with what came: {', '.join(known)}." if known else ""


def pause_words(told: Status) -> str:
    """The longest pause by Python's collector; empty where the server does not tell or there was none."""
    longest_s = told.longest_gc_pause_s
    return f"The collector's longest pause since the server started: {duration(longest_s)}." if longest_s else ""


def server_tiles(reading: Reading, told: Status, state: Condition) -> list[TileText]:
    """The server page's key figures."""
    standing = told.engine.state or engine_standing(reading)
    of_standing = palette.words_of(palette.STANDINGS)(standing) if standing and state.current else MISSING
    suspects = told.engine.crash_suspects
    counted = (
        ("Engine deaths", panels.DEATHS, "Engines that died or were ended since the server started."),
        ("Silences", engine_panels.SILENCES, "Times the engine gave no sign of life for too long."),
        ("Went again", engine_panels.REPLAYS, "Requests that went to another engine after theirs had died."),
        ("Replaced", engine_panels.RECYCLES, "Living engines that were replaced: by order, by the clock, or by size."),
    )
    tiles = [TileText("Engine", of_standing, "How the engine stands now.", f"{suspects} run alone" if suspects else "")]
    for label, expression, explanation in counted:
        value = newest(reading[expression].line())
        old = "" if value is None or state.current else "last known"
        tiles.append(TileText(label, _compact(value), explanation, old))
    last_s = [took_s for line in reading[engine_panels.WARMUP_S].lines.values() if (took_s := newest(line)) is not None]
    took = duration(sum(last_s)) if last_s else MISSING
    tiles.append(TileText("Warm-up", took, "The last round of every stage of the warm-up.", told.warmup.state))
    return tiles


def _compact(value: Point) -> str:
    return MISSING if value is None else compact(value)
