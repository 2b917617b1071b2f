"""The gate: the asyncio shell around the desk.

It owns the only clock (``loop.time``), the only timer and the futures on which requests wait; it carries the desk's
effects out and decides nothing. All methods must be called on the event loop's thread; none of them awaits.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

from headway.errors import Refused, UnknownClassError, refusal
from headway_policies import (
    Abort,
    Desk,
    Dispatch,
    Effect,
    Ending,
    Expire,
    Load,
    Preset,
    Reason,
    Reject,
    Ticket,
    WakeAt,
)


class Meter(Protocol):
    """Where the gate reports durations; counts are read from the desk's ledger."""

    def waited(self, class_name: str, wait_s: float) -> None:
        """A ticket was dispatched after this wait."""
        ...

    def first_token(self, class_name: str, delay_s: float) -> None:
        """A ticket's first token came this long after its arrival."""
        ...


class Passage:
    """One request's way through the gate. Whoever got it from ``Gate.enter`` must call ``leave`` in the end.

    Ownership: the gate settles refusals and time-outs by itself; the caller settles every other end. Only the first
    counts. ``on_abort`` is called once, synchronously, when the desk gives up a request the engine may still have.
    """

    __slots__ = (
        "_gate",
        "_turn",
        "dispatched_s",
        "ended_sequences",
        "left",
        "on_abort",
        "preset_name",
        "refused",
        "ticket",
        "token_s",
    )

    def __init__(self, gate: Gate, ticket: Ticket) -> None:
        self._gate = gate
        self.ticket = ticket
        self._turn: asyncio.Future[None] | None = None
        self.dispatched_s: float | None = None
        self.token_s: float | None = None
        self.preset_name = gate.desk.preset.name
        self.refused: Refused | None = None
        self.on_abort: Callable[[], None] | None = None
        self.left = False
        self.ended_sequences = 0

    @property
    def wait_s(self) -> float:
        """How long the ticket waited for its dispatch; until then, how long it has waited."""
        until_s = self._gate.now_s() if self.dispatched_s is None else self.dispatched_s
        return until_s - self.ticket.arrived_s

    async def admitted(self) -> None:
        """Wait for the desk's decision. Raises Refused. Several calls of one request may wait together."""
        if self.left:
            raise self.refused or asyncio.CancelledError("this request is over")
        if self.dispatched_s is None and self.refused is None:
            if self._turn is None:
                self._turn = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._turn)
        if self.refused is not None:
            raise self.refused

    def first_token(self, delay_s: float | None = None) -> None:
        """Report the first token; ``delay_s`` where the engine measured it, from arrival, in seconds."""
        if self.token_s is None:
            self._gate._first_token(self, delay_s)

    def occupy(self, seats: int) -> None:
        """Report how many sequences of this request the engine holds now."""
        if not self.left:
            self._gate._carry_out(self._gate.desk.reseat(self.ticket.id, seats, self._gate.now_s()))

    def leave(self, ending: Ending) -> None:
        """Settle the request. Every call after the first does nothing."""
        if not self.left:
            self.left = True
            self._gate._leave(self, ending)
            if self._turn is not None:
                self._turn.cancel()  # another call of this request may be waiting still

    def _decide(self, refused: Refused | None) -> None:
        self.refused = self.refused or refused
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)


def loop_time_s() -> float:
    """The event loop's clock, in seconds."""
    return asyncio.get_running_loop().time()


class Gate:
    """Admission for one engine, on one event loop."""

    def __init__(self, preset: Preset, *, ceiling: int | None = None, meter: Meter | None = None) -> None:
        self.now_s = loop_time_s
        self.desk = Desk(preset, ceiling=ceiling)
        self._meter = meter
        self._passages: dict[int, Passage] = {}
        self._ids = itertools.count(1)
        self._timer: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------------ one request

    def enter(
        self, class_name: str | None = None, *, tenant: str = "", seats: int = 1, timeout_s: float | None = None
    ) -> Passage:
        """Ask for a seat; decided at once if it can be. Raises Refused, or UnknownClassError."""
        preset = self.desk.preset
        name = preset.default_class if class_name is None else class_name
        if name not in preset.classes:
            known = ", ".join(preset.by_urgency())
            raise UnknownClassError(f"there is no class {name!r}; the classes are: {known}")
        now_s = self.now_s()
        deadline_s = None if timeout_s is None else now_s + timeout_s
        ticket = Ticket(next(self._ids), name, now_s, tenant=tenant, seats=seats, deadline_s=deadline_s)
        passage = self._passages[ticket.id] = Passage(self, ticket)
        self._carry_out(self.desk.arrive(ticket, now_s))
        if passage.refused is not None:
            passage.left = True
            raise passage.refused
        return passage

    @asynccontextmanager
    async def admit(
        self, class_name: str | None = None, *, tenant: str = "", seats: int = 1, timeout_s: float | None = None
    ) -> AsyncIterator[Passage]:
        """Hold a seat for the length of a block. Raises Refused before it, and after it when time ran out inside."""
        passage = self.enter(class_name, tenant=tenant, seats=seats, timeout_s=timeout_s)
        ending = Ending.FAILED
        try:
            await passage.admitted()
            yield passage
            if passage.refused is not None:
                raise passage.refused
            ending = Ending.COMPLETED
        except (asyncio.CancelledError, GeneratorExit):
            ending = Ending.CANCELLED
            raise
        finally:
            passage.leave(ending)

    # ------------------------------------------------------------------ the whole

    def switch(self, preset: Preset) -> int:
        """Put another preset in force in one synchronous step; returns its revision."""
        self._carry_out(self.desk.switch(preset, self.now_s()))
        return self.desk.revision

    def observe(self, load: Load) -> None:
        """Pass an engine step's figures to the limit policy."""
        self._carry_out(self.desk.observe(load, self.now_s()))

    def pause(self) -> None:
        """Let nobody through."""
        self._carry_out(self.desk.pause(self.now_s()))

    def resume(self) -> None:
        """Let people through again."""
        self._carry_out(self.desk.resume(self.now_s()))

    def drain(self) -> None:
        """Refuse newcomers and everybody waiting; the running go on."""
        self._carry_out(self.desk.drain(self.now_s()))

    def engine_lost(self, reason: Reason = Reason.ENGINE_LOST) -> None:
        """Settle everything the engine took with it; refuse until it is back."""
        if self.desk.engine_up:
            self._carry_out(self.desk.engine_lost(self.now_s(), reason))

    def engine_back(self) -> None:
        """The engine serves again."""
        self._carry_out(self.desk.engine_back(self.now_s()))

    def dump(self) -> dict[str, Any]:
        """The desk's live state, for operators."""
        return self.desk.dump(self.now_s())

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    # ------------------------------------------------------------------ inside

    def _first_token(self, passage: Passage, delay_s: float | None) -> None:
        passage.token_s = now_s = self.now_s()
        ticket = passage.ticket
        if self._meter is not None:
            self._meter.first_token(ticket.class_name, now_s - ticket.arrived_s if delay_s is None else delay_s)
        self._carry_out(self.desk.first_token(ticket.id, now_s))

    def _leave(self, passage: Passage, ending: Ending) -> None:
        self._carry_out(self.desk.leave(passage.ticket.id, ending, self.now_s()))
        self._passages.pop(passage.ticket.id, None)  # only now: its time may have run out in this very event

    def _tick(self) -> None:
        self._timer = None
        self._carry_out(self.desk.tick(self.now_s()))

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Dispatch():
                    self._dispatch(effect)
                case Reject() | Expire():
                    passage = self._passages.pop(effect.ticket_id)
                    passage._decide(refusal(effect.reason, effect.retry_after_s))
                case Abort():
                    self._abort(effect)
                case WakeAt():
                    self._arm(effect.at_s)

    def _dispatch(self, effect: Dispatch) -> None:
        passage = self._passages[effect.ticket_id]
        ticket = passage.ticket
        passage.dispatched_s = self.now_s()
        passage.preset_name = self.desk.preset.name
        if self._meter is not None:
            self._meter.waited(ticket.class_name, passage.dispatched_s - ticket.arrived_s)
        passage._decide(None)

    def _abort(self, effect: Abort) -> None:
        passage = self._passages[effect.ticket_id]
        passage._decide(refusal(effect.reason, self.desk.retry_after_s(self.now_s())))
        if passage.on_abort is not None:
            passage.on_abort()

    def _arm(self, at_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at_s, self._tick)


__all__ = ["Gate", "Meter", "Passage", "loop_time_s"]
