"""Notices about the engine that an operator must see at once.

Pure functions of the engine's state and the server's status. The metrics alone are enough for every notice; where the
status is known too, the notice names the attempt, the stage and the reason.

    engine state   notice    content
    silent         warning   for how long, and how many requests wait
    restarting     warning   the attempt, its current step, and how many requests wait
    recycle        info      whether the old engine still serves, how many seats are taken, or the current step;
                             without the status, by the cause of the last engine death
    lost           error     whether another attempt follows
    paused         warning   the actor, duration and reason, how many requests wait, its end, and how to resume
    draining       warning   the same, with the seats that are still taken; info where the server closes
    warm-up        info      which attempt, what is done; failed: error, with the reason; by command: beside the traffic
    order          warning   which error disabled it, and which order is used instead
    no Headway     info      what is shown of plain vLLM, and how to start it with Headway
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.api.schema import WarmupStatus
from headway_dashboard.analysis.server.engine_deaths import RECYCLE
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.analysis.server.stop_words import DRAINING, by_and_since, end_words, operator_stop
from headway_dashboard.analysis.units import compact, counted, duration
from headway_policies.engine import Stage

Kind = Literal["info", "warning", "error"]

STAGES: dict[str, str] = {
    Stage.SINGLE: "one request alone",
    Stage.LOGPROBS: "log probabilities",
    Stage.JSON_SCHEMA: "a JSON schema",
    Stage.BATCH: "full batches",
    Stage.ALONE: "one request on the warm engine",
}
_STEPS = ("pausing", "starting", "warming")


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice. ``progress`` is from 0 to 1, None where it is not known; ``step`` names the current step."""

    kind: Kind
    title: str
    text: str
    progress: float | None = None
    step: str = ""


PLAIN_VLLM = Notice(
    "info",
    "This server is plain vLLM without Headway",
    "Shown are its output tokens, tokens a step, KV cache in use, preemptions and prefix-cache hits. Classes, the "
    "queue, the diagnosis, alerts and commands need Headway: start the server with: headway serve.",
)


@dataclass(frozen=True, slots=True)
class Situation:
    """The situation by the metrics: the engine's state, for how long (None: longer than is known), and the queue.

    ``deaths`` are the unplanned ends. ``last_cause`` is why the last engine ended; empty where it is not known.
    """

    ready: float | None = None
    engine_state: str = ""
    since_s: float | None = None
    queued: float | None = None
    deaths: float | None = None
    last_cause: str = ""


def notices(now: Situation, status: Status) -> list[Notice]:
    """All notices, the most urgent first; empty in normal operation."""
    state = status.engine.state or now.engine_state
    found = [_engine(state, now, status), _stopped(now, status), _warmup(state, status.warmup)]
    if state in ("", "up") and not status.known and now.ready == 0 and status.reasons:
        reasons = ", ".join(status.reasons)
        found.append(Notice("warning", "The server takes no traffic", f"Reasons: {reasons}."))
    if status.order_error:
        text = f"Its {status.order_error}. Until a preset with another order is in force, "
        text += "waiting requests are dispatched by class share and evenly by tenant."
        found.append(Notice("warning", "The custom order of this preset was disabled", text))
    if status.window_error:
        text = f"Its {status.window_error}. Batches gather for the preset's fixed window_ms."
        found.append(Notice("warning", "The custom window of this preset was disabled", text))
    found.append(_trial(status))
    return [notice for notice in found if notice is not None]


def stage_words(stage: str) -> str:
    """A stage of the warm-up as a reader says it."""
    return STAGES.get(stage) or stage.replace("_", " ")


# ---------------------------------------------------------------------- the engine


def _engine(state: str, now: Situation, status: Status) -> Notice | None:
    match state:
        case "silent":
            text = f"Dispatch is suspended{_for(now)}; {_waiting(now)}. "
            text += "Dispatch resumes when the engine responds."
            return Notice("warning", "The engine is unresponsive", text)
        case "restarting":
            return _restarting(now, status)
        case "lost":
            return _lost(now, status)
    return _recycling(now, status) if status.recycling else None


def _recycling(now: Situation, status: Status) -> Notice:
    """The old engine serves while the new one starts beside it; then it is emptied."""
    title = "Recycle: the engine is about to be replaced"
    if status.dispatching:
        return Notice("info", title, "The new engine starts beside the old one, which goes on serving until it is up.")
    text = f"No new request is sent to the engine; {_taken(status)}, {_waiting(now)}. "
    text += "Once it is empty, it is replaced."
    return Notice("info", title, text)


def _taken(status: Status) -> str:
    running = status.seats_taken
    return f"{counted(running, 'seat is', 'seats are')} still taken" if running else "no seat is taken any more"


def _restarting(now: Situation, status: Status) -> Notice:
    """Another engine is being started, and requests may wait for it."""
    progress, step = _progress(status)
    doing = _restart_step(status)
    if status.recycling or (not status.known and now.last_cause == RECYCLE):
        text = f"{_sentence(doing)}{_for(now)}; {_waiting(now)} for it. Time-outs keep running."
        return Notice("info", "Recycle: the engine is being replaced", text, progress, step)
    text = f"{_attempt(now, status)}: {doing}{_for(now)}; {_waiting(now)} for it, and new requests may queue."
    died = status.known or now.last_cause or now.deaths
    title = "The engine died and is being restarted" if died else "The engine is being restarted"
    return Notice("warning", title, text, progress, step)


def _lost(now: Situation, status: Status) -> Notice | None:
    """No engine, and new requests are refused: for a while, before the first warm-up, or for good."""
    if status.engine.restart_step:
        progress, step = _progress(status)
        doing = f"{_attempt(now, status)}: {status.engine.restart_step}{_for(now)}"
        text = f"{doing}. New requests are refused until it is back."
        return Notice("error", "The engine is gone and is being restarted", text, progress, step)
    if status.warmup.state in ("pending", "running", "failed"):
        return None  # it has not begun to serve: the warm-up's notice says why
    if status.known:
        attempts = status.engine.max_restart_attempts
        why = f"All {attempts} restart attempts failed" if attempts > 1 else "No restart attempt is left"
        if not attempts:
            why = "This server cannot replace its engine"
        text = f"{why}, and no request is admitted. Check the server's log, then start it again."
        return Notice("error", "The engine is lost", text)
    says = f" Reasons: {', '.join(status.reasons)}." if status.reasons else ""
    text = f"No request is admitted. If this lasts, check the server's log and start it again.{says}"
    return Notice("error", "The engine is gone or not warm", text)


def _attempt(now: Situation, status: Status) -> str:
    if status.engine.restart_attempts and status.engine.max_restart_attempts:
        return f"Attempt {status.engine.restart_attempts} of {status.engine.max_restart_attempts}"
    return f"Death number {compact(now.deaths)} since the server started" if now.deaths else "A restart is under way"


def _restart_step(status: Status) -> str:
    """The current step towards another engine, as the server reports it."""
    if status.engine.restart_step:
        return status.engine.restart_step
    _, _, after = next(iter(status.reasons), "").partition(": ")
    return after or "another engine is being started"


def _progress(status: Status) -> tuple[float | None, str]:
    """The progress of a restart: it pauses, starts an engine, and warms it up."""
    at = next((index for index, word in enumerate(_STEPS) if status.engine.restart_step.startswith(word)), None)
    if at is None:
        return None, ""
    return (at + 0.5) / len(_STEPS), f"Step {at + 1} of {len(_STEPS)}: {status.engine.restart_step}"


def _for(now: Situation) -> str:
    return f", for {duration(round(now.since_s))}" if now.since_s is not None and now.since_s >= 1 else ""


def _waiting(now: Situation) -> str:
    if now.queued is None:
        return "an unknown number of requests wait"
    return counted(now.queued, "request waits", "requests wait") if now.queued else "no request waits"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


# ---------------------------------------------------------------------- a pause, a drain

_RESUME = "Resume it on the page Control, or with headway resume."


def _stopped(now: Situation, status: Status) -> Notice | None:
    """Dispatch is blocked by a command, or the server closes."""
    commanded, since = operator_stop(status), by_and_since(status)
    said = f"Commanded {_ended(since)} " if since else ""
    if status.admission == DRAINING:
        text = f"{said}New and waiting requests are refused; {_taken(status)}."
        if commanded:
            return Notice("warning", "The server is draining", f"{text} {_RESUME}")
        return Notice("info", "The server is closing", text)
    if not commanded:
        return None
    end = f" {ends}" if (ends := end_words(status)) else ""
    text = f"{said}No request is dispatched; {_waiting(now)}; time-outs go on.{end} {_RESUME}"
    return Notice("warning", "The server is paused", text)


# ---------------------------------------------------------------------- a trial


def _trial(status: Status) -> Notice | None:
    if status.trial is None:
        return None
    text = f"The trial ends within {duration(status.trial.left_s)}, and {status.trial.back_to} may return. "
    text += "The page Control has its terms; headway preset keep ends it, and the preset stays."
    return Notice("info", f"The preset {status.preset} is on trial", text)


# ---------------------------------------------------------------------- the warm-up


def _warmup(state: str, warmup: WarmupStatus) -> Notice | None:
    if state == "restarting":
        return None  # part of the restart, which says so
    if warmup.ordered:
        text = "An operator asked for it. The server stays ready; tokens come more slowly until it ends."
        return Notice("info", "A warm-up runs beside the traffic", text)
    match warmup.state:
        case "pending":
            return Notice("info", "The engine waits for its warm-up", "The server takes no traffic until it is done.")
        case "running":
            return _warming(warmup)
        case "failed":
            text = f"Attempt {warmup.attempt}: {_ended(warmup.reason or 'no reason was given')} It is tried again by "
            return Notice("error", "The warm-up failed", f"{text}itself within a minute; the server takes no traffic.")
    return None


def _warming(warmup: WarmupStatus) -> Notice:
    passed = [stage for stage in Stage if stage in warmup.stages or stage in warmup.refused]
    done = [stage_words(stage) for stage in passed if stage is not Stage.BATCH]
    rounds = len(warmup.stages.get(Stage.BATCH, ()))
    if rounds:
        done.append(counted(rounds, "full batch", "full batches"))
    text = f"Done so far: {', '.join(done) or 'nothing yet'}. The server takes no traffic until all is done."
    if warmup.reason:
        text += f" {_sentence(_ended(warmup.reason))}"
    before_batches = list(Stage).index(Stage.BATCH)
    at = min(list(Stage).index(passed[-1]) + 1, before_batches) if passed else 0
    progress = at / len(Stage) + 0.05 * min(rounds, 4)  # how many batches it takes is not known before
    title = "The engine is being warmed up" if warmup.attempt <= 1 else f"Warm-up, attempt {warmup.attempt}"
    return Notice("info", title, text, progress, f"{at} of {len(Stage)} stages done")


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
