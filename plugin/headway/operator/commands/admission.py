"""Commands of an operator that stop dispatch, and the one that ends them.

    command  new requests                     waiting requests               running requests
    pause    wait, bounded and timed          keep waiting                   finish
    drain    refused, with Retry-After        refused, with Retry-After      finish
    resume   as the preset says               dispatched as seats are free   finish

A drain may follow a pause, and a resume ends both. A pause may have an end, at which the server itself resumes; another
pause renews or replaces it, a drain takes its end away, and one without an end is never shortened. Other causes of a
stop (a recycle, a warm-up, the engine's own pause) end by themselves, and a server that closes drains for good.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from headway.admission import Gateway
from headway.api.schema import AdmissionChanged
from headway.audit import Audit, Caller, plain
from headway.background_tasks import BackgroundTasks
from headway.errors import CommandConflictError
from headway_policies import AdmissionState, Block

TASK, EXPIRY = "drain", "pause expiry"
PAUSE, RESUME, DRAIN = "pause_admission", "resume_admission", "drain_admission"
_POLL_S = 0.1
_OVER = "the time of the command is over"
_CLOSING = "the server is closing: start it again once it has ended"
_DRAINS = "the server is draining already: resume ends the drain"


@dataclass(frozen=True, slots=True)
class OperatorStop:
    """A command that stops dispatch: the state it led to, since when (gate's clock, wall clock), by whom and why.

    ``ends_s`` is a time of the gate's clock; None: a resume ends it.
    """

    state: AdmissionState
    since_s: float
    since_wall_s: float
    actor: str
    reason: str
    ends_s: float | None = None

    def renews(self, other: OperatorStop) -> bool:
        """Whether this command only moves the end of another: the same state, author and reason."""
        if self.ends_s is None or other.ends_s is None:
            return False
        return (self.state, self.actor, self.reason) == (other.state, other.actor, other.reason)


class AdmissionCommands:
    """The commands to pause, drain and resume one server. Call it on the event loop's thread only."""

    def __init__(self, gateway: Gateway, tasks: BackgroundTasks, audit: Audit) -> None:
        self._gateway = gateway
        self._tasks = tasks
        self._audit = audit
        self._last: OperatorStop | None = None

    @property
    def stop(self) -> OperatorStop | None:
        """The command that stops dispatch now; None where no command does."""
        return self._last if Block.OPERATOR in self._gateway.gate.desk.mode.blocks else None

    def pause(self, caller: Caller, reason: str = "", expires_s: float | None = None) -> AdmissionChanged:
        """Suspend dispatch, for ``expires_s`` or until a resume. A renewal by the same author is not recorded.

        Raises CommandConflictError where a drain, or a pause without an end, is in force; then nothing has changed.
        """
        gate, stop, why = self._gateway.gate, self.stop, ""
        if gate.desk.mode.state is AdmissionState.DRAINING:
            why = "the server is draining, which stops more than a pause: resume ends the drain"
        elif Block.OPERATOR in gate.desk.mode.blocks and (stop is None or stop.ends_s is None):
            why = "the server is paused already: resume ends the pause"
        change = self._change(PAUSE, gate.pause, why, caller, reason, expires_s)
        self._tasks.stop(EXPIRY)
        if expires_s is not None and self._last is not None:
            self._tasks.start(EXPIRY, self._expire(expires_s, self._last))
        return change

    def drain(self, caller: Caller, reason: str = "") -> AdmissionChanged:
        """Refuse new and waiting requests until a resume. Raises CommandConflictError where it is so already.

        The audit says when the last running request has ended.
        """
        why = _DRAINS if self._gateway.gate.desk.mode.state is AdmissionState.DRAINING else ""
        change = self._change(DRAIN, self._drain, why, caller, reason)
        self._tasks.stop(EXPIRY)
        self._tasks.start(TASK, self._until_drained(caller, reason))
        return change

    def resume(self, caller: Caller, reason: str = "") -> AdmissionChanged:
        """End the pause and the drain of an operator. Raises CommandConflictError where no command stops dispatch."""
        gate, why = self._gateway.gate, ""
        if Block.OPERATOR not in gate.desk.mode.blocks:
            why = "no command blocks dispatch"
            if gate.desk.mode.blocks:
                why += f"; the block by {', '.join(sorted(gate.desk.mode.blocks))} ends by itself"
        change = self._change(RESUME, gate.resume, why, caller, reason)
        self._tasks.stop(TASK)
        self._tasks.stop(EXPIRY)
        return change

    # ------------------------------------------------------------------ inside

    def _record(self, caller: Caller, action: str, before: str, after: str, reason: str, result: str) -> None:
        revision = self._gateway.gate.desk.mode.revision
        self._audit.record(caller, action, before=before, after=after, revision=revision, reason=reason, result=result)

    def _drain(self) -> None:
        """Drain with the operator's hold, which tells it from the drain of a server that closes."""
        self._gateway.gate.pause()
        self._gateway.gate.drain()

    def _change(
        self,
        action: str,
        act: Callable[[], None],
        conflict: str,
        caller: Caller,
        reason: str,
        expires_s: float | None = None,
    ) -> AdmissionChanged:
        """Carry a command out in one synchronous step, and record it, or why it is refused."""
        gate = self._gateway.gate
        desk, ledger = gate.desk, gate.desk.ledger
        before, waiting, running = desk.mode.state, ledger.queued, ledger.in_flight
        if why := _CLOSING if self._gateway.link.closing else conflict:
            self._record(caller, action, before.value, before.value, reason, f"refused: {why}")
            raise CommandConflictError(why)
        last = self.stop
        act()
        stop = self._last = None if action == RESUME else self._stop_by(caller, reason, last, expires_s)
        change = AdmissionChanged(
            state=desk.mode.state.value,
            holds=[str(block) for block in sorted(desk.mode.blocks)],
            running=ledger.in_flight,
            waiting=ledger.queued,
            dispatched=ledger.in_flight - running if action == RESUME else 0,
            refused=waiting - ledger.queued if action == DRAIN else 0,
        )
        if stop is None or last is None or not stop.renews(last):
            end = "" if expires_s is None else f"; for {expires_s:g} s"
            self._record(caller, action, before.value, desk.mode.state.value, reason, f"applied: {_words(change)}{end}")
        return change

    def _stop_by(self, caller: Caller, reason: str, last: OperatorStop | None, expires_s: float | None) -> OperatorStop:
        """The command that stops dispatch from now on; a renewal is the last one with a later end."""
        gate = self._gateway.gate
        now_s = gate.now_s()
        ends_s = None if expires_s is None else now_s + expires_s
        stop = OperatorStop(gate.desk.mode.state, now_s, time.time(), plain(caller.actor), plain(reason), ends_s)
        return replace(last, ends_s=ends_s) if last is not None and stop.renews(last) else stop

    async def _expire(self, after_s: float, stop: OperatorStop) -> None:
        """Resume, unless another command, or the end of the server, has come before."""
        await asyncio.sleep(after_s)
        if self.stop is stop and not self._gateway.link.closing:
            self._change(RESUME, self._gateway.gate.resume, "", Caller("headway"), _OVER)

    async def _until_drained(self, caller: Caller, reason: str) -> None:
        """Record the end of the last running request."""
        gateway, gate = self._gateway, self._gateway.gate
        began_s, word = gate.now_s(), AdmissionState.DRAINING.value
        ledger = gate.desk.ledger
        while ledger.queued or ledger.in_flight or gateway.open_calls:  # noqa: ASYNC110 - counts change
            await asyncio.sleep(_POLL_S)
        self._record(caller, DRAIN, word, word, reason, f"done after {gate.now_s() - began_s:.1f} s: no request runs")


def _words(change: AdmissionChanged) -> str:
    """The requests' fate, in words for the audit."""
    moved = [(change.dispatched, "dispatched"), (change.refused, "refused")]
    counts = [(change.running, "running"), (change.waiting, "waiting"), *(count for count in moved if count[0])]
    return ", ".join(f"{number} {word}" for number, word in counts)
