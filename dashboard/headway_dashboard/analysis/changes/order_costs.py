"""What an order of an operator costs the requests that are here now, in words."""

from __future__ import annotations

from dataclasses import dataclass

from headway_dashboard.analysis.server.status import Status


@dataclass(frozen=True, slots=True)
class Here:
    """The requests that are here: with a seat, and waiting. None: not known."""

    running: int | None = None
    waiting: int | None = None


def here_of(status: Status) -> Here:
    """The requests that are here by the server's status."""
    return Here(status.seats_taken, status.queued) if status.known else Here()


def pause_cost(here: Here) -> str:
    """The cost of a pause."""
    if here.running is None or here.waiting is None:
        return "Running requests finish; waiting and new ones wait until Resume. Time-outs go on."
    return f"Now: {_finish_alone(here.running)}; {_keep_waiting(here.waiting)}, and new ones wait too. Time-outs go on."


def drain_cost(here: Here) -> str:
    """The cost of a drain."""
    if here.running is None or here.waiting is None:
        return "Running requests finish; waiting and new ones are refused with Retry-After until Resume."
    refused = "no request waits" if not here.waiting else f"{_requests(here.waiting, 'waiting')} {_are(here.waiting)}"
    refused += "" if not here.waiting else " refused"
    return f"Now: {_finish_alone(here.running)}; {refused}. New ones are refused with Retry-After until Resume."


def resume_cost(here: Here) -> str:
    """The effect of a resume."""
    if here.waiting is None:
        return "Waiting requests are dispatched as seats are free, and new ones are admitted."
    if not here.waiting:
        return "Now: no request waits; new ones are admitted and dispatched."
    return f"Now: {_requests(here.waiting, 'waiting')} {_are(here.waiting)} dispatched as seats are free."


def warmup_cost(here: Here, limit: int | None) -> str:
    """The cost of a warm-up beside the traffic, under a limit of so many seats."""
    if here.running is None or limit is None:
        return "Requests of the warm-up take the free seats for some seconds; tokens come more slowly meanwhile."
    if not here.running:
        return f"Now: batches of at most {limit} on an idle engine; requests that come meanwhile run beside them."
    batch = max(1, limit - here.running)
    return (
        f"Now: batches of at most {batch} beside {_requests(here.running, 'running')}, whose tokens come more slowly."
    )


def recycle_cost(here: Here) -> str:
    """The cost of another engine."""
    if here.running is None or here.waiting is None:
        return "Running requests finish first; waiting requests keep waiting until the engine is replaced."
    return f"Now: {_finish(here.running)}; {_keep_waiting(here.waiting)} until the engine is replaced."


def limit_cost(seats: int | None, here: Here, ceiling: int | None = None) -> str:
    """The cost of a held limit; ``seats`` None: the preset's own limit returns."""
    if seats is None:
        return "The preset's own limit returns; no request is dropped."
    if ceiling is not None and seats > ceiling:
        return f"The server refuses more than the {ceiling} seats that the engine was started with."
    if here.running is None or here.waiting is None:
        return "No request is dropped; with fewer seats waiting requests wait longer."
    over = here.running - seats
    if over > 0:
        first = f"{over} of {_requests(here.running, 'running')} finish before the next is dispatched"
        return f"Now: {first}; {_keep_waiting(here.waiting)} meanwhile."
    sent = min(-over, here.waiting)
    return f"Now: {_requests(sent, 'waiting')} can be dispatched at once; {_keep_waiting(here.waiting - sent)}."


def rung_cost(rung: str, here: Here) -> str:
    """The cost of a rung of the fallback ladder."""
    if rung == "pause":
        if here.running is None or here.waiting is None:
            return "Nothing is dispatched until the order ends; time-outs go on."
        return (
            f"Now: {_finish_alone(here.running)}; {_keep_waiting(here.waiting)} until the order ends. Time-outs go on."
        )
    if here.waiting is None or rung != "shed":
        return ""
    return f"Now: of {_requests(here.waiting, 'waiting')} those of sheddable classes are refused."


def _finish(running: int) -> str:
    return "no request runs" if not running else f"{_requests(running, 'running')} finish{_s(running)} first"


def _finish_alone(running: int) -> str:
    return "no request runs" if not running else f"{_requests(running, 'running')} finish{_s(running)}"


def _keep_waiting(waiting: int) -> str:
    return "no request waits" if not waiting else f"{_requests(waiting, 'waiting')} keep{_s(waiting, 's')} waiting"


def _requests(number: int, state: str) -> str:
    return f"{number} {state} {'request' if number == 1 else 'requests'}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _s(number: int, ending: str = "es") -> str:
    return ending if number == 1 else ""
