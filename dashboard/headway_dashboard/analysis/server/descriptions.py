"""Texts and table rows about the engine, the fallback ladder, the warm-up and the limit.

Made of the metrics and of the server's status; no drawing, no fetching.
"""

from __future__ import annotations

from collections.abc import Iterable

from headway.api.schema import BatchStatus, FallbackState, WarmupStatus
from headway_dashboard.analysis.catalogue import engine_panels, palette, panels
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.model import Point, held_s, newest
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.server.condition import Condition
from headway_dashboard.analysis.server.engine_deaths import last_cause, unplanned
from headway_dashboard.analysis.server.identity import is_plain_vllm
from headway_dashboard.analysis.server.newest_values import TileText, now
from headway_dashboard.analysis.server.notices import PLAIN_VLLM, STAGES, Notice, Situation, notices, stage_words
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.analysis.units import MISSING, compact, counted, duration, written
from headway_policies.limits import WHYS

NORMAL = "normal"
_QUIET = "quiet"
_MAX_MOVES = 10
_LONGEST_S = 14 * 86_400.0

#: The effect of each rung on requests, the mildest first.
RUNGS = {
    NORMAL: "no request is degraded",
    "cap": "answers are shorter",
    "bypass": "a few requests are dispatched beside the running batch",
    "shed": "whole classes are refused",
    "divert": "another model answers",
    "pause": "all requests wait",
}
_ALWAYS_OPEN = (NORMAL, "pause")

_TRIGGERS = {
    "queue_age": "the age of the queue",
    "kv_pressure": "a full KV cache",
    "errors": "too many errors",
    "engine_down": "an engine that is down",
    "operator": "an operator's command",
    _QUIET: "the trigger has cleared",
}


def engine_state_of(reading: SourceReading) -> str:
    """The engine's state: up, silent, restarting or lost; empty where it is not known.

    Of several servers' engines one that is up is enough: the table of the servers shows the others.
    """
    lines = reading[panels.ENGINE_STATE].lines
    states = [labels[0] for labels, line in lines.items() if line and line[-1] == 1]
    return "up" if "up" in states else next(iter(states), "")


def rung(reading: SourceReading) -> str:
    """The rung of the fallback ladder, by the metrics; empty where it is not known."""
    at = now(reading, panels.RUNG)
    steps = engine_panels.RUNG_PANEL.steps
    return steps[int(at)] if at is not None and 0 <= at < len(steps) else ""


def situation(reading: SourceReading) -> Situation:
    """The engine's state, by the metrics."""
    engine_state = engine_state_of(reading)
    series, deaths = reading[panels.ENGINE_STATE], reading[engine_panels.DEATHS_BY_CAUSE]
    return Situation(
        ready=now(reading, panels.READY),
        engine_state=engine_state,
        since_s=held_s(series.times_s, series.line(engine_state)) if engine_state else None,
        queued=now(reading, panels.QUEUED),
        deaths=unplanned(deaths),
        last_cause=last_cause(deaths),
    )


def notices_of(reading: SourceReading, status: Status, state: Condition) -> list[Notice]:
    """The notices at the top of a page; none while the figures are old."""
    if not state.current:
        return []
    return [PLAIN_VLLM] if is_plain_vllm(reading) else notices(situation(reading), status)


def step_rows(reading: SourceReading) -> list[dict[str, str]]:
    """The moves of the ladder since the server started, with their number and reason; only those that have happened."""
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
            "When (UTC)": move.time.replace("T", " ").removesuffix("Z").partition(".")[0],
            "Move": f"{move.before} → {move.after}",
            "Why": trigger_words(move.trigger),
        }
        for move in ladder.moves[:_MAX_MOVES]
    ]


def batch_rows(batches: Iterable[BatchStatus]) -> list[dict[str, str]]:
    """A row for each batch of the Batch API that has not ended."""
    return [
        {
            "Tenant": batch.tenant,
            "State": batch.state.replace("_", " ") + (", late" if batch.late else ""),
            "Lines done": f"{compact(batch.completed)} of {compact(batch.total)}" if batch.total else MISSING,
            "Failed": compact(batch.failed),
            "Time left": _left(batch.left_s),
            "Window ends (UTC)": batch.expires.replace("T", " ").removesuffix("Z"),
            "Batch": batch.id,
        }
        for batch in batches
    ]


def _left(left_s: float | None) -> str:
    """The time that the lines left need; none is told beyond the longest window."""
    if left_s is None:
        return MISSING
    return duration(left_s) if left_s < _LONGEST_S else "over 14 d"


def ladder_words(ladder: FallbackState, by_numbers: str = "") -> str:
    """The ladder's rung, its cause, and its effect on requests; empty where it is not known."""
    word = ladder.rung or by_numbers
    if not word:
        return ""
    if ladder.ordered:
        why = " by an operator's command, until it is set to automatic"
    elif ladder.trigger in _TRIGGERS and ladder.trigger != _QUIET and word != NORMAL:
        why = f" because of {trigger_words(ladder.trigger)}"
    else:
        why = ""
    taken = taken_words(ladder.in_force or (word,))
    return f"The fallback ladder is at **{word}**{why}: {taken}."


def taken_words(rungs: Iterable[str]) -> str:
    """The effect of these rungs on requests."""
    taken = [RUNGS[word] for word in rungs if word in RUNGS and word != NORMAL]
    return ", ".join(taken) or RUNGS[NORMAL]


def settable(ladder: FallbackState) -> tuple[str, ...]:
    """The rungs an operator may set: those that have an effect under this preset, and two that are always allowed.

    All of them while the ladder is not known: the server decides.
    """
    return tuple(word for word in RUNGS if not ladder.rung or word in (*_ALWAYS_OPEN, *ladder.usable))


def rung_effect(ladder: FallbackState, chosen: str) -> str:
    """The effect of an rung that is set: a command puts all rungs up to it in force."""
    upto = rung_place(chosen)
    return taken_words(word for word in settable(ladder) if rung_place(word) <= upto)


def rung_place(word: str) -> int:
    """The place of a rung on the ladder, the mildest first; unknown ones last."""
    steps = engine_panels.RUNG_PANEL.steps
    return steps.index(word) if word in steps else len(steps)


def trigger_words(trigger: str) -> str:
    """The reason of a move of the ladder, in words."""
    return _TRIGGERS.get(trigger) or trigger.replace("_", " ")


def warmup_rows(reading: SourceReading, status: WarmupStatus) -> list[dict[str, str]]:
    """The stages of the warm-up in their order: all rounds where the status is known, else the last by the metrics."""
    last_s = {labels[0]: line[-1] for labels, line in reading[engine_panels.WARMUP_S].lines.items() if line}
    rounds: dict[str, list[float]] = dict(status.stages) or {
        stage: [took_s] for stage, took_s in last_s.items() if took_s is not None
    }
    rows = []
    for stage in [*STAGES, *(stage for stage in rounds if stage not in STAGES)]:
        took_s = rounds.get(stage, [])
        if not took_s and stage not in status.refused:
            continue
        rows.append(
            {
                "Stage": stage_words(stage),
                "Rounds": compact(len(took_s)) if status.stages else MISSING,
                "Took": " → ".join(duration(round_s) for round_s in took_s)
                or "left out: warm already, or not supported",
            }
        )
    return rows


def warmup_words(status: WarmupStatus) -> str:
    """The warm-up's result or progress, in a sentence or two; empty where the status is not known."""
    match status.state:
        case "":
            return ""
        case "done" if status.settled:
            end = "Done: the last two batches took about the same time."
        case "done":
            end = "Done, although the times of the last two batches still differed."
        case "skipped":
            return "Skipped, as configured."
        case _:
            end = f"{status.state.capitalize()}."
    size = f" A full batch has {counted(status.batch_size, 'request', 'requests')}." if status.batch_size else ""
    attempt = f" Attempt {status.attempt}." if status.attempt > 1 else ""
    reason = f" {status.reason[:1].upper()}{status.reason[1:]}." if status.reason and status.state != "done" else ""
    return f"{end}{attempt}{reason}{size}"


def limit_words(reading: SourceReading, status: Status) -> str:
    """The limit in one line: live, proposed, ceiling, and why it is what it is; one by command with its end."""
    figures = [("live", panels.LIMIT), ("proposed", engine_panels.PROPOSED), ("ceiling", panels.CEILING)]
    line = " · ".join(f"{words} **{_compact(now(reading, figure))}**" for words, figure in figures)
    limit = status.operator_limit
    if limit is None:
        why = WHYS.get(status.limit_reason) or status.limit_reason
    else:
        end = "until the next switch" if limit.left_s is None else f"for another {duration(limit.left_s)}"
        why = f"{counted(limit.seats, 'seat', 'seats')} set in place of the preset's, {end}"
    return f"{line} · {why}" if why else line


def bound_words(status: Status) -> str:
    """The seats that the engine's memory holds and beyond which they cost much; empty while neither is known."""
    words = "; ".join(status.seat_bounds.words)
    return f"{words[0].upper()}{words[1:]}." if words else ""


def prefix_words(status: Status) -> str:
    """The share of the prompts that the engine finds in its prefix cache; empty where the order does not use it."""
    if status.prefix is None:
        return ""
    found, expected = (written(ratio, "ratio") for ratio in (status.prefix.hit_ratio, status.prefix.expected_ratio))
    return (
        f"Order by prefix: the engine found **{found}** of the prompt tokens in its prefix cache, "
        f"where {expected} was expected."
    )


def step_words(status: Status) -> str:
    """The part of recent steps that prompts took beside decoding sequences; empty where no step was planned."""
    steps = status.engine.steps
    if steps is None or steps.prefill_share is None:
        return ""
    share, target = (written(ratio, "ratio") for ratio in (steps.prefill_share, steps.target_share))
    longest = f", the longest for {written(steps.longest_held_s, 'seconds')}" if steps.longest_held_s else ""
    return (
        f"Prompts beside decoding sequences took **{share}** of the time of their steps (target {target}); prompt "
        f"tokens were postponed in {written(steps.held, 'count')} of {written(steps.planned, 'count')} steps{longest}."
    )


def prediction_words(reading: SourceReading) -> str:
    """The number of samples behind the prediction errors."""
    lines = reading[engine_panels.PREDICTION_SAMPLES].lines
    say = palette.words_of(palette.PREDICTIONS)
    known = [
        f"{say(labels[0])}: {counted(number, 'sample', 'samples')}"
        for labels, line in lines.items()
        if (number := newest(line))
    ]
    return f"Predictions compared with the outcome: {', '.join(known)}." if known else ""


def pause_words(status: Status) -> str:
    """The longest garbage-collection pause; empty where it is not known or there was none."""
    longest_s = status.longest_gc_pause_s
    return f"Longest garbage-collection pause since the server started: {duration(longest_s)}." if longest_s else ""


def server_tiles(reading: SourceReading, status: Status, state: Condition) -> list[TileText]:
    """The server page's key figures."""
    engine_state = status.engine.state or engine_state_of(reading)
    state_words = palette.words_of(palette.ENGINE_STATES)(engine_state) if engine_state and state.current else MISSING
    suspects = status.engine.crash_suspects
    counted = (
        ("Engine deaths", _deaths(reading), "Engines that died since the server started; recycles stand apart."),
        ("Hangs", _newest(reading, engine_panels.HANGS), "Times the engine was unresponsive for too long."),
        (
            "Retried",
            _newest(reading, engine_panels.RETRIES),
            "Requests retried on another engine after theirs had died.",
        ),
        (
            "Recycles",
            _newest(reading, engine_panels.RECYCLES),
            "Running engines that were replaced: by command, on schedule, or for their memory.",
        ),
    )
    tiles = [
        TileText("Engine", state_words, "The engine's state now.", f"{suspects} retried alone" if suspects else "")
    ]
    for label, value, explanation in counted:
        old = "" if value is None or state.current else "last known"
        tiles.append(TileText(label, _compact(value), explanation, old))
    lines = reading[engine_panels.WARMUP_S].lines.values()
    last_s = [took_s for line in lines if line and (took_s := line[-1] if state.current else newest(line)) is not None]
    took = duration(sum(last_s)) if last_s else MISSING
    tiles.append(TileText("Warm-up", took, "The last round of every stage of the warm-up.", status.warmup.state))
    return tiles


def _deaths(reading: SourceReading) -> Point:
    """Unplanned deaths of the engine; all of them where the causes are not known."""
    known = unplanned(reading[engine_panels.DEATHS_BY_CAUSE])
    return _newest(reading, panels.DEATHS) if known is None else known


def _newest(reading: SourceReading, expression: Expression) -> Point:
    return newest(reading[expression].line())


def _compact(value: Point) -> str:
    return MISSING if value is None else compact(value)
