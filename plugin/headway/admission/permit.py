"""One request's way through the gate, for whoever sees the request from outside: the gateway, or a program."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from headway.errors import Refused, refusal
from headway_policies import Ending, Reason, Ticket, Usage

if TYPE_CHECKING:
    from headway.admission.gate import Gate


class Permit:
    """One request's way through the gate. Whoever got it from ``Gate.enter`` must call ``leave`` in the end.

    Ownership: the gate settles refusals and time-outs by itself; the caller settles every other end. Only the first
    counts. ``on_abort`` is called once, synchronously, when the desk gives up a request the engine may still have.
    A dispatched request whose engine died may wait again: ``waiting`` is true once more, and so does ``admitted``.
    """

    __slots__ = (
        "_gate",
        "_turn",
        "_why",
        "batch",
        "begun",
        "beside",
        "dispatched_s",
        "ended_sequences",
        "in_engine",
        "left",
        "most_tokens",
        "on_abort",
        "preset_name",
        "requeues",
        "stalls",
        "ticket",
        "token_s",
        "usage",
    )

    def __init__(self, gate: Gate, ticket: Ticket, preset_name: str, *, stalls: bool) -> None:
        self._gate = gate
        self.ticket = ticket
        self.stalls = stalls
        self._turn: asyncio.Future[None] | None = None
        self.begun = False
        self.batch: int | None = None
        self.beside = False
        self.most_tokens: int | None = None
        self.usage: Usage | None = None
        self.dispatched_s: float | None = None
        self.token_s: float | None = None
        self.preset_name = preset_name
        self._why: tuple[Reason, int] | None = None
        self.on_abort: Callable[[], None] | None = None
        self.left = False
        self.requeues = 0
        self.ended_sequences = 0
        self.in_engine = 0

    @property
    def wait_s(self) -> float:
        """How long the ticket waited for its dispatch; until then, how long it has waited."""
        until_s = self._gate.now_s() if self.dispatched_s is None else self.dispatched_s
        return until_s - self.ticket.arrived_s

    @property
    def losses(self) -> str:
        """What it had to do without, as ``x-headway-degraded`` says it; empty when it got all it asked for."""
        cut = [] if self.most_tokens is None else [f"max_tokens={self.most_tokens}"]
        return ", ".join([*cut, *(["order"] if self.beside else [])])

    @property
    def waiting(self) -> bool:
        """Whether nothing is decided yet, or not any more."""
        return self.dispatched_s is None and self._why is None and not self.left

    @property
    def refused(self) -> Refused | None:
        """Why it was turned away, if it was. A new error each time: one that was raised holds on to its raisers."""
        return None if self._why is None else refusal(*self._why)

    def check(self) -> None:
        """Raises Refused if it was turned away."""
        if self._why is not None:
            raise refusal(*self._why)

    async def admitted(self) -> None:
        """Wait for the desk's decision. Raises Refused. Several calls of one request may wait together."""
        if self.left:
            self.check()
            raise asyncio.CancelledError("this request is over")
        while self.waiting:
            if self._turn is None:
                self._turn = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._turn)
        self.check()

    def first_token(self, delay_s: float | None = None) -> None:
        """Report the first token that shows; ``delay_s`` where the engine measured it, from arrival, in seconds."""
        if self.token_s is None:
            self.token_s = self._gate.now_s()
            self._gate._measured(self.ticket, self.token_s - self.ticket.arrived_s if delay_s is None else delay_s)
            self.progress()

    def progress(self) -> None:
        """Report that tokens came, also those that do not show. Costs nothing where no stall time-out applies."""
        if not self.begun:
            self.begun = True
            self._gate._carry_out(self._gate.desk.first_token(self.ticket.id, self._gate.now_s()))
        elif self.stalls:
            self._gate.desk.token_batch(self.ticket.id, self._gate.now_s())  # only noted: there are no effects

    @property
    def watched(self) -> bool:
        """Whether it still matters when this request's next token comes."""
        return not self.left and (self.stalls or not self.begun)

    def use(self, prompt_tokens: int, output_tokens: int) -> None:
        """Report what one of its sequences used, in tokens; they add up."""
        so_far = self.usage or Usage(0, 0)
        self.usage = Usage(so_far.prompt_tokens + prompt_tokens, so_far.output_tokens + output_tokens)

    def occupy(self, in_engine: int) -> None:
        """Report how many sequences of this request the engine has now.

        Until the request is settled it also holds the seats of those that are still to come; from then on it holds
        seats only as long as the engine has sequences of it.
        """
        before, self.in_engine = self.in_engine, in_engine
        if not self.left:
            seats = max(in_engine, self.ticket.seats - self.ended_sequences)
        elif before:
            seats = in_engine
        else:
            return
        self._gate._carry_out(self._gate.desk.reseat(self.ticket.id, seats, self._gate.now_s()))

    def leave(self, ending: Ending, usage: Usage | None = None) -> None:
        """Settle the request; ``usage`` in place of what ``use`` added up. Later calls do nothing."""
        if not self.left:
            self.left = True
            self.usage = usage or self.usage
            self._gate._leave(self, ending)
            if self._turn is not None:
                self._turn.cancel()  # another call of this request may be waiting still

    def _requeue(self) -> None:
        """The engine it ran on is gone: it waits for another turn."""
        self.dispatched_s, self.batch, self._turn = None, None, None
        self.begun, self.ended_sequences, self.in_engine = False, 0, 0
        self.requeues += 1
        self.beside, self.most_tokens = False, None

    def _refuse(self, reason: Reason, retry_after_s: int) -> None:
        """The desk turned it away; only the first reason counts."""
        self._why = self._why or (reason, retry_after_s)
        if self._turn is not None:
            self._wake()

    def _wake(self) -> None:
        """Something was decided: whoever waits for it looks again."""
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)
