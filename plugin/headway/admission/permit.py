"""The permit: the state of one request at the gate, for the gateway or a program.

A permit uses its gate only through ``PermitGate``; the gate holds its permits. Its phases and transitions are those of
its ticket in the desk, in the table of ``headway_policies.desk.books.transitions``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from headway.admission.account import Account
from headway.errors import Refused, refusal
from headway_policies import Ending, Outcome, Reason, Ticket, Usage
from headway_policies.desk.books.transitions import Event, Phase, after


class PermitGate(Protocol):
    """The part of the gate that its permits use. All methods are synchronous, on the gate's event loop."""

    @property
    def now_s(self) -> Callable[[], float]:
        """The gate's clock, in seconds."""
        ...

    def report_first_token(self, permit: Permit, delay_s: float) -> None:
        """The first visible token came ``delay_s`` after the arrival."""
        ...

    def report_progress(self, permit: Permit, *, first: bool) -> None:
        """Tokens came; ``first`` for the first ones since the last dispatch."""
        ...

    def occupy_seats(self, permit: Permit, seats: int) -> None:
        """The request needs this many seats from now on."""
        ...

    def settle(self, permit: Permit, ending: Ending) -> None:
        """The request is over."""
        ...

    def close_account(self, permit: Permit) -> None:
        """Close the account of an ended request."""
        ...


class Permit:
    """The state of a request at the gate. The caller of ``Gate.enter`` must call ``leave`` once.

    Ownership: the gate settles refusals and time-outs by itself; the caller settles every other end. Only the first
    counts. ``on_stop`` is called, synchronously, when a request has to leave the engine: the desk aborts it, which
    calls ``on_abort`` as well, or a more urgent request takes its seat. In the second case, and when its engine died,
    the request is queued again, and ``admitted`` waits again. ``dispatch``, ``refuse``, ``abort`` and ``requeue`` are
    for the gate: each carries out an effect of the desk, and raises IllegalTransitionError in a wrong ``phase``.
    """

    __slots__ = (
        "_gate",
        "_turn",
        "_why",
        "account",
        "batches_before",
        "batches_waited",
        "begun",
        "beside",
        "dispatched_s",
        "ended_s",
        "ended_sequences",
        "ending",
        "finish_reasons",
        "first_token_s",
        "in_engine",
        "most_tokens",
        "on_abort",
        "on_stop",
        "phase",
        "preset_name",
        "requeues",
        "stalls",
        "ticket",
        "token_s",
        "usage",
    )

    def __init__(
        self,
        gate: PermitGate,
        ticket: Ticket,
        *,
        stalls: bool,
        preset_name: str,
        batches_before: int = 0,
        account: Account | None = None,
    ) -> None:
        self._gate = gate
        self.ticket = ticket
        self.account = account
        self.stalls = stalls
        self.preset_name = preset_name
        self.batches_before, self.batches_waited = batches_before, 0
        self.phase = Phase.WAITING
        self._why: tuple[Reason, int] | None = None
        self.usage: Usage | None = None
        self.token_s: float | None = None
        self.first_token_s: float | None = None
        self.on_abort: Callable[[], None] | None = None
        self.on_stop: Callable[[], None] | None = None
        self.ending: Ending | None = None
        self.requeues = 0
        self._start_over()

    def _start_over(self) -> None:
        """Reset the times of an earlier run in the engine."""
        self._turn: asyncio.Future[None] | None = None
        self.dispatched_s: float | None = None
        self.most_tokens: int | None = None
        self.beside = self.begun = False
        self.ended_sequences = self.in_engine = 0
        self.ended_s: float | None = None
        self.finish_reasons: tuple[str, ...] = ()

    @property
    def wait_s(self) -> float:
        """The wait of the ticket until its dispatch, or until now."""
        until_s = self._gate.now_s() if self.dispatched_s is None else self.dispatched_s
        return until_s - self.ticket.arrived_s

    @property
    def degradations(self) -> str:
        """How the request was degraded, as ``x-headway-degraded`` says it; empty when it was not."""
        cut = [] if self.most_tokens is None else [f"max_tokens={self.most_tokens}"]
        return ", ".join([*cut, *(["order"] if self.beside else [])])

    @property
    def waiting(self) -> bool:
        """Whether the request is queued: not dispatched, not refused, not over."""
        return self.phase is Phase.WAITING

    @property
    def over(self) -> bool:
        """Whether the request is over for its caller; the engine may still have sequences of it."""
        return self.phase is Phase.ENDED

    @property
    def refused(self) -> Refused | None:
        """The refusal, if the request was refused. A new error each time: a raised one keeps its callers alive."""
        return None if self._why is None else refusal(*self._why)

    @property
    def reason(self) -> Reason | None:
        """The reason of the refusal, if the request was refused."""
        return None if self._why is None else self._why[0]

    def check(self) -> None:
        """Raises Refused if the request was refused."""
        if self._why is not None:
            raise refusal(*self._why)

    async def admitted(self) -> None:
        """Wait for the desk's decision. Raises Refused. Several calls of one request may wait together."""
        while self.waiting:
            if self._turn is None:
                self._turn = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._turn)
        self.check()
        if self.over:
            raise asyncio.CancelledError("this request is over")

    def first_token(self, delay_s: float | None = None) -> None:
        """Report the first visible token; ``delay_s`` where the engine measured it, from arrival, in seconds."""
        if self.token_s is None:
            self.token_s = self._gate.now_s()
            self.first_token_s = self.token_s - self.ticket.arrived_s if delay_s is None else delay_s
            self._gate.report_first_token(self, self.first_token_s)
            self.progress()

    def progress(self) -> None:
        """Report that tokens came, visible or not. Does nothing where no stall time-out applies."""
        if not self.begun:
            self.begun = True
            self._gate.report_progress(self, first=True)
        elif self.stalls:
            self._gate.report_progress(self, first=False)

    @property
    def watched(self) -> bool:
        """Whether the time of this request's next token is needed."""
        return not self.over and (self.stalls or not self.begun)

    def use(self, prompt_tokens: int, output_tokens: int, finish_reason: str = "") -> None:
        """Report the end of one of its sequences: what it used, in tokens, which add up, and why it ended, if known."""
        so_far = self.usage or Usage(0, 0)
        self.usage = Usage(so_far.prompt_tokens + prompt_tokens, so_far.output_tokens + output_tokens)
        self.ended_s = self._gate.now_s()
        if finish_reason:
            self.finish_reasons = (*self.finish_reasons, finish_reason)

    def occupy(self, in_engine: int) -> None:
        """Report how many sequences of this request the engine has now.

        Until the request is settled it also occupies the seats of its sequences that have not started; after that it
        occupies seats only as long as the engine has sequences of it.
        """
        before, self.in_engine = self.in_engine, in_engine
        if not self.over:
            seats = max(in_engine, self.ticket.seats - self.ended_sequences)
        elif before:
            seats = in_engine
        else:
            return
        self._holds(seats)
        self._gate.occupy_seats(self, seats)

    def leave(self, ending: Ending) -> None:
        """Settle the request. Later calls do nothing."""
        if self.over:
            return
        self.ending = ending
        self._gate.settle(self, ending)
        if not self.over:  # else its time ran out in this very event, while it waited
            self.phase = after(self.phase, Event.LEAVE)
        if self._turn is not None:
            self._turn.cancel()  # another call of this request may still wait

    def dispatch(self, preset_name: str, batches: int, *, beside: bool) -> None:
        """Give the permit its seats, under this preset: the calls that wait in ``admitted`` continue. ``batches`` have
        left by now, with its own.
        """
        self._move(Event.DISPATCH)
        self.batches_waited = max(0, batches - self.batches_before - 1)
        self.preset_name, self.beside, self.dispatched_s = preset_name, beside, self._gate.now_s()
        self._holds(self.ticket.seats)

    def refuse(self, reason: Reason, retry_after_s: int) -> None:
        """Refuse the request while it waits: the permit is over."""
        self._why = reason, retry_after_s
        self._move(Event.REFUSE)

    def abort(self, reason: Reason, retry_after_s: int) -> None:
        """Abort the running request; its caller must still call ``leave``."""
        self._why = reason, retry_after_s
        self._move(Event.ABORT)

    def requeue(self) -> None:
        """The request waits for another dispatch: its engine died, or a more urgent request took its seat."""
        self._move(Event.REQUEUE)
        self._start_over()
        self.requeues += 1
        self._holds(None)

    def close_account(self) -> None:
        """Close the account, if the request is over and none of its calls is left in the engine."""
        if self.account is not None and self.account.closed:
            self._holds(0)
            self._gate.close_account(self)

    def end_account(self, outcome: Outcome) -> None:
        """The request is over; its calls that are still in the engine continue to count."""
        if self.account is not None:
            self.account.outcome = outcome
            self._holds(self.in_engine)
            self.close_account()

    def _holds(self, seats: int | None) -> None:
        if self.account is not None:
            self.account.has(seats, self._gate.now_s())

    def _move(self, event: Event) -> None:
        self.phase = after(self.phase, event)
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)
