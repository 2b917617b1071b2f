"""The price of an operator's command for the requests that are here now, and its effect, in words."""

from __future__ import annotations

from headway.api import AdmissionChanged, FallbackState, Switched, WarmupAccepted
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.analysis.units import counted

# ---------------------------------------------------------------------- the cost of a command, by the newest status


def pause_cost(status: Status) -> str:
    """The cost of a pause."""
    if not status.known:
        return "Running requests finish; waiting and new ones wait until Resume. Time-outs go on."
    return f"Now: {_finish(status)}; {_keep_waiting(status.queued)}, and new ones wait too. Time-outs go on."


def drain_cost(status: Status) -> str:
    """The cost of a drain."""
    if not status.known:
        return "Running requests finish; waiting and new ones are refused with Retry-After until Resume."
    refused = counted(status.queued, "waiting request is refused", "waiting requests are refused")
    waiting = refused if status.queued else "no request waits"
    return f"Now: {_finish(status)}; {waiting}. New ones are refused with Retry-After until Resume."


def resume_cost(status: Status) -> str:
    """The effect of a resume."""
    if not status.known:
        return "Waiting requests are dispatched as seats are free, and new ones are admitted."
    if not status.queued:
        return "Now: no request waits; new ones are admitted and dispatched."
    sent = counted(status.queued, "waiting request is dispatched", "waiting requests are dispatched")
    return f"Now: {sent} as seats are free."


def warmup_cost(status: Status, limit: int | None) -> str:
    """The cost of a warm-up beside the traffic, under a limit of so many seats."""
    if status.warmup.ordered:
        return "A warm-up runs now."
    if not status.known or limit is None:
        return "Requests of the warm-up take the free seats for some seconds; tokens come more slowly meanwhile."
    running = status.seats_taken
    if not running:
        return f"Now: batches of at most {limit} on an idle engine; requests that come meanwhile run beside them."
    return (
        f"Now: batches of at most {max(1, limit - running)} beside {_running(running)}, whose tokens come more slowly."
    )


def recycle_cost(status: Status) -> str:
    """The cost of another engine."""
    if not status.known:
        return "Running requests finish first; waiting requests keep waiting until the engine is replaced."
    return f"Now: {_finish(status, ' first')}; {_keep_waiting(status.queued)} until the engine is replaced."


def limit_cost(seats: int | None, status: Status, ceiling: int | None = None) -> str:
    """The cost of a held limit; ``seats`` None: the preset's own limit returns."""
    if seats is None:
        return "The preset's own limit returns; no request is dropped."
    if ceiling is not None and seats > ceiling:
        return f"The server refuses more than the {ceiling} seats that the engine was started with."
    if not status.known:
        return "No request is dropped; with fewer seats waiting requests wait longer."
    over = status.seats_taken - seats
    if over > 0:
        finish = "finishes" if over == 1 else "finish"
        first = f"{over} of {_running(status.seats_taken)} {finish} before the next is dispatched"
        return f"Now: {first}; {_keep_waiting(status.queued)} meanwhile."
    sent = min(-over, status.queued)
    at_once = f"{_waiting(sent)} can be dispatched at once; " if sent else ""
    return f"Now: {at_once}{_keep_waiting(status.queued - sent)}."


def rung_cost(rung: str, status: Status) -> str:
    """The cost of a rung of the fallback ladder; empty where the numbers do not tell it."""
    if rung == "pause" and not status.known:
        return "Nothing is dispatched until the command ends; time-outs go on."
    if rung == "pause":
        return f"Now: {_finish(status)}; {_keep_waiting(status.queued)} until the command ends. Time-outs go on."
    if rung == "shed" and status.known:
        return f"Now: of {_waiting(status.queued)} those of sheddable classes are refused."
    return ""


# ---------------------------------------------------------------------- the answer to a command


def paused(changed: AdmissionChanged) -> str:
    """The answer to a pause."""
    wait = counted(changed.waiting, "waiting request waits on", "waiting requests wait on")
    return f"Paused: {_running(changed.running)} will finish, {wait}."


def drained(changed: AdmissionChanged) -> str:
    """The answer to a drain."""
    refused = _waiting(changed.refused)
    end = f"{_running(changed.running)} will finish; the audit log will say when."
    return f"Draining: {refused} refused. {end}" if changed.running else f"Drained: {refused} refused, none runs."


def resumed(changed: AdmissionChanged) -> str:
    """The answer to a resume; other causes may still block dispatch."""
    sent = f"Resumed: {_waiting(changed.dispatched)} dispatched at once, {changed.waiting} still waiting."
    return sent if changed.state == "open" else f"{sent} Dispatch is still blocked by {', '.join(changed.holds)}."


def warming(accepted: WarmupAccepted) -> str:
    """The answer to a warm-up."""
    beside = f"beside {_running(accepted.running)}" if accepted.running else "on an idle engine"
    return f"Accepted: batches of at most {accepted.batch_size} {beside}. The audit log will say how it ends."


def recycling(seats_taken: int) -> str:
    """The answer to a recycle."""
    still = f"{counted(seats_taken, 'seat is', 'seats are')} still taken. " if seats_taken else ""
    return f"Accepted. {still}The top of this page shows its progress, the audit log its end."


def laddered(now: FallbackState) -> str:
    """The answer to a command of the ladder."""
    if now.ordered:
        return f"The ladder is at {now.rung}, as set here."
    return f"The ladder is automatic again; it is at {now.rung} now."


def limited(done: Switched, seats: int | None) -> str:
    """The answer to a limit that is set or released."""
    now = f"{done.name} has its own limit again"
    if seats is not None:
        now = f"The limit is set to {counted(seats, 'seat', 'seats')}"
    confirmed = "" if done.engine_limit_confirmed else " The engine has not confirmed it."
    return f"{now}, as revision {done.revision}.{confirmed}"


def _finish(status: Status, how: str = "") -> str:
    running = status.seats_taken
    finish = counted(running, f"running request finishes{how}", f"running requests finish{how}")
    return finish if running else "no request runs"


def _keep_waiting(waiting: int) -> str:
    keep = counted(waiting, "waiting request keeps waiting", "waiting requests keep waiting")
    return keep if waiting else "no request waits"


def _running(number: int) -> str:
    return counted(number, "running request", "running requests")


def _waiting(number: int) -> str:
    return counted(number, "waiting request", "waiting requests")
