"""Orders of an operator that stop dispatch, and the one that ends them.

    order    new requests                     waiting requests               running requests
    pause    wait, bounded and timed          keep waiting                   finish
    drain    refused, with Retry-After        refused, with Retry-After      finish
    resume   as the preset says               dispatched as seats are free   finish

A drain may follow a pause, and a resume ends both. Other causes of a stop (a recycle, a warm-up, the engine's own
pause) end by themselves, and a server that closes drains for good.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headway.admission import Gateway
from headway.audit import Caller, plain
from headway.background_tasks import BackgroundTasks
from headway.errors import OrderConflictError
from headway_policies import AdmissionState, Hold

TASK = "drain"
PAUSE, RESUME, DRAIN = "pause_admission", "resume_admission", "drain_admission"
_POLL_S = 0.1
_CLOSING = "the server is closing: start it again once it has ended"
_DRAINS = "the server is draining already: resume ends the drain"

#: Writes one line of the audit: the caller, the action, the state before and after, the reason, and the result.
Record = Callable[[Caller, str, str, str, str, str], None]


@dataclass(frozen=True, slots=True)
class OrderedStop:
    """An order that stops dispatch: the state it led to, since when (gate's clock, wall clock), by whom and why."""

    state: AdmissionState
    since_s: float
    since_wall_s: float
    actor: str
    reason: str


@dataclass(frozen=True, slots=True)
class AdmissionChange:
    """The state of admission after an order, the requests that run and wait, and those it dispatched or refused."""

    state: AdmissionState
    holds: tuple[Hold, ...]
    running: int
    waiting: int
    dispatched: int = 0
    refused: int = 0


class AdmissionOrders:
    """The orders to pause, drain and resume one server. Call it on the event loop's thread only."""

    def __init__(
        self, gateway: Gateway, tasks: BackgroundTasks, record: Record, wall_s: Callable[[], float] = time.time
    ) -> None:
        self._gateway = gateway
        self._tasks = tasks
        self._record = record
        self._wall_s = wall_s
        self._last: OrderedStop | None = None

    @property
    def stop(self) -> OrderedStop | None:
        """The order that stops dispatch now; None where no order does."""
        return self._last if Hold.OPERATOR in self._gateway.gate.desk.holds else None

    def status(self) -> dict[str, Any]:
        """The part of the status that says what stops dispatch."""
        stop, gate = self.stop, self._gateway.gate
        holds = [str(hold) for hold in sorted(gate.desk.holds)]
        return {"holds": holds, "stopped": None if stop is None else _stop_status(stop, gate.now_s())}

    def pause(self, caller: Caller, reason: str = "") -> AdmissionChange:
        """Suspend dispatch. Raises OrderConflictError where it is so already; then nothing has changed."""
        gate, why = self._gateway.gate, ""
        if gate.desk.state is AdmissionState.DRAINING:
            why = "the server is draining, which stops more than a pause: resume ends the drain"
        elif Hold.OPERATOR in gate.desk.holds:
            why = "the server is paused already: resume ends the pause"
        return self._change(PAUSE, gate.pause, why, caller, reason)

    def drain(self, caller: Caller, reason: str = "") -> AdmissionChange:
        """Refuse new and waiting requests until a resume. Raises OrderConflictError where it is so already.

        The audit says when the last running request has ended.
        """
        why = _DRAINS if self._gateway.gate.desk.state is AdmissionState.DRAINING else ""
        change = self._change(DRAIN, self._drain, why, caller, reason)
        self._tasks.start(TASK, self._until_drained(caller, reason))
        return change

    def resume(self, caller: Caller, reason: str = "") -> AdmissionChange:
        """End the pause and the drain of an operator. Raises OrderConflictError where no order stops dispatch."""
        gate, why = self._gateway.gate, ""
        if Hold.OPERATOR not in gate.desk.holds:
            why = "no order stops dispatch"
            if gate.desk.holds:
                why += f"; it is held by {', '.join(sorted(gate.desk.holds))}, which ends by itself"
        change = self._change(RESUME, gate.resume, why, caller, reason)
        self._tasks.stop(TASK)
        return change

    # ------------------------------------------------------------------ inside

    def _drain(self) -> None:
        """With the operator's hold, which tells it from the drain of a server that closes."""
        self._gateway.gate.pause()
        self._gateway.gate.drain()

    def _change(
        self, action: str, act: Callable[[], None], conflict: str, caller: Caller, reason: str
    ) -> AdmissionChange:
        """Carry an order out in one synchronous step, and record it, or why it is refused."""
        gate = self._gateway.gate
        desk, ledger = gate.desk, gate.desk.ledger
        before, waiting, running = desk.state, ledger.queued, ledger.in_flight
        if why := _CLOSING if self._gateway.link.closing else conflict:
            self._record(caller, action, before.value, before.value, reason, f"refused: {why}")
            raise OrderConflictError(why)
        act()
        if action != RESUME:
            self._last = OrderedStop(desk.state, gate.now_s(), self._wall_s(), plain(caller.actor), plain(reason))
        change = AdmissionChange(
            desk.state,
            tuple(sorted(desk.holds)),
            ledger.in_flight,
            ledger.queued,
            dispatched=ledger.in_flight - running if action == RESUME else 0,
            refused=waiting - ledger.queued if action == DRAIN else 0,
        )
        self._record(caller, action, before.value, desk.state.value, reason, f"applied: {_words(change)}")
        return change

    async def _until_drained(self, caller: Caller, reason: str) -> None:
        """Record the end of the last running request."""
        gateway, gate = self._gateway, self._gateway.gate
        began_s, word = gate.now_s(), AdmissionState.DRAINING.value
        while gate.desk.ledger.in_flight or gateway.open_calls:  # noqa: ASYNC110 - two counts change
            await asyncio.sleep(_POLL_S)
        self._record(caller, DRAIN, word, word, reason, f"done after {gate.now_s() - began_s:.1f} s: no request runs")


def _words(change: AdmissionChange) -> str:
    """What became of the requests, for the audit."""
    moved = [(change.dispatched, "dispatched"), (change.refused, "refused")]
    counts = [(change.running, "running"), (change.waiting, "waiting"), *(one for one in moved if one[0])]
    return ", ".join(f"{number} {word}" for number, word in counts)


def _stop_status(stop: OrderedStop, now_s: float) -> dict[str, Any]:
    since = datetime.fromtimestamp(stop.since_wall_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "state": stop.state.value,
        "since": since,
        "for_s": round(now_s - stop.since_s, 1),
        "actor": stop.actor,
        "reason": stop.reason,
    }
