"""The guard: carries each ``generate`` call of an engine through the gate.

Ownership of a request. Inside an HTTP request a ``Trip`` stands in the context: the entrance made it, all calls of
that request share its one passage, and the entrance settles it when the response is over. Without a trip the call is
a program's own, and is settled when its generator ends. A cancelled call is settled at once in both cases.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from headway.engine import Engine, Kind
from headway.errors import Refused, TooWideError
from headway.gate import Gate, Passage
from headway_policies import Ending, Reason

log = logging.getLogger(__name__)

_ABORT_AGAIN_S = 0.25

Start = Callable[[str, int], AsyncGenerator[Any, None]]


@dataclass(slots=True)
class Trip:
    """What the entrance knows of an HTTP request, and the passage all its engine calls share."""

    class_name: str | None = None
    tenant: str = ""
    timeout_s: float | None = None
    bypass: bool = False
    prompts: int = 1
    detached: bool = False
    passage: Passage | None = None
    rejected: Refused | None = None
    calls_failed: int = 0
    calls_completed: int = 0

    @property
    def refused(self) -> Refused | None:
        """The refusal of this request, if it was refused."""
        return self.rejected if self.passage is None else self.passage.refused


@dataclass(slots=True)
class _Call:
    id: str
    passage: Passage
    seats: int
    open: bool = True


@dataclass(slots=True)
class Guard:
    """Everything between one engine and its gate."""

    gate: Gate
    kind: Kind
    engine: Engine
    core_limit: int | None = None
    closing: bool = False
    engine_lost: bool = False
    _loop: asyncio.AbstractEventLoop | None = None
    _calls: dict[str, _Call] = field(default_factory=dict)
    _calls_of: dict[int, list[_Call]] = field(default_factory=dict)
    _stopping: set[str] = field(default_factory=set)
    _errands: set[asyncio.Task[None]] = field(default_factory=set)

    def reserve(self, trip: Trip, seats: int) -> Passage:
        """The passage of a trip, entered on first use. Raises Refused."""
        if self._loop is None:
            self._begin()
        if trip.passage is None:
            ceiling = self.gate.desk.ceiling
            if ceiling is not None and seats > ceiling:
                raise TooWideError(f"n = {seats} is more than the {ceiling} sequences this server runs at once")
            seats = max(1, seats * trip.prompts)
            try:
                passage = self.gate.enter(trip.class_name, tenant=trip.tenant, seats=seats, timeout_s=trip.timeout_s)
            except Refused as refused:
                trip.rejected = refused
                raise
            passage.on_abort = lambda: self._abort_calls(passage)
            trip.passage = passage
        return trip.passage

    async def carry(
        self, trip: Trip | None, request_id: str, seats: int, start: Start, own: Trip
    ) -> AsyncGenerator[Any, None]:
        """Run one engine call behind the gate. ``start(id, rank)`` begins it; ``own`` is used when there is no trip."""
        journey = own if trip is None else trip
        call: _Call | None = None
        stream: AsyncGenerator[Any, None] | None = None
        finished, output = False, None
        try:
            passage = self.reserve(journey, seats)
            await passage.admitted()
            call = self._open(passage, request_id, seats)
            stream = start(call.id, self._rank(passage))
            async for output in stream:
                if passage.refused is not None:
                    raise passage.refused
                if passage.token_s is None:
                    passage.first_token(self.kind.first_token_delay_s(output))
                yield output
            if passage.refused is not None:
                raise passage.refused
            finished = output is not None and not self.kind.unfinished(output)
        except Refused as refused:
            raise self.kind.error(refused) from None
        except (asyncio.CancelledError, GeneratorExit):
            if journey.passage is not None:
                journey.passage.leave(Ending.CANCELLED)
            raise
        except Exception as error:
            self.check_engine()
            if journey.refused is not None:
                raise self.kind.error(journey.refused) from error
            raise
        finally:
            if call is not None:
                self._close(call)
                if not finished:
                    self._stopping.add(call.id)
                    self._send(self._stop(stream, call.id))
            self._account(journey, finished, settle=trip is None)

    def class_of(self, priority: int | str | None) -> str | None:
        """The class a program asks for: by name, by number (larger = more urgent), or None for the default."""
        return self.gate.desk.preset.class_for_priority(priority) if isinstance(priority, int) else priority

    def sequence_ended(self, request_id: str) -> None:
        """The engine finished one sequence of a call: its seat is free, however slowly the client reads."""
        call = self._calls.get(request_id)
        if call is not None and call.seats > 0:
            self._free(call, 1)

    def check_engine(self) -> None:
        """Tell the gate when the engine is beyond use."""
        if self.engine.errored:
            self.engine_died()

    def engine_died(self) -> None:
        """The engine is beyond use, and not because we are closing. May be called from any thread."""
        if not self.closing and not self.engine_lost:
            self.engine_lost = True
            self._on_loop(self.gate.engine_lost)

    def close_from_any_thread(self) -> None:
        """Refuse newcomers and everybody waiting; what the engine does from now on is no fault."""
        self.closing = True
        self._on_loop(self.gate.drain)

    def closed_from_any_thread(self) -> None:
        """The engine was stopped: answer whoever it was still running, who would wait for ever."""
        self._on_loop(lambda: self.gate.engine_lost(Reason.DRAINING))

    async def limit_engine(self, seats: int) -> None:
        """Carry the limit into the engine itself. Without it the gate alone keeps the limit."""
        try:
            self.core_limit = await self.kind.limit_engine(self.engine, seats)
        except Exception as error:  # an engine that cannot be told must not undo a switch that is already in force
            self.core_limit = None
            log.warning("the engine's own limit could not be set to %d: %s", seats, error)

    @property
    def open_calls(self) -> int:
        """Engine calls under way."""
        return len(self._calls)

    # ------------------------------------------------------------------ inside

    def _on_loop(self, action: Callable[[], None]) -> None:
        """Run now when this is the gate's loop, else as soon as the loop gets to it; never once it is closed."""
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is not None and self._loop in (None, here):
            action()
        elif self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(action)

    def _begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self.engine_lost:
            self.gate.engine_lost()
        elif self.core_limit is None:
            self._send(self.limit_engine(self.gate.desk.limit))
        if self.closing:
            self.gate.drain()

    def _rank(self, passage: Passage) -> int:
        """The class's place, 0 the most urgent: the engine's smaller-is-first priority."""
        ranked = self.gate.desk.preset.by_urgency()
        name = passage.ticket.class_name
        return ranked.index(name) if name in ranked else len(ranked)

    def _open(self, passage: Passage, request_id: str, seats: int) -> _Call:
        """Register a call. An id in use, or on its way out, gets a suffix, so that no abort can hit a stranger."""
        unique, suffix = request_id, 1
        while unique in self._calls or unique in self._stopping:
            suffix += 1
            unique = f"{request_id}~{suffix}"
        call = self._calls[unique] = _Call(unique, passage, seats)
        self._calls_of.setdefault(passage.ticket.id, []).append(call)
        self._occupy(passage)
        return call

    def _close(self, call: _Call) -> None:
        call.open = False
        del self._calls[call.id]
        ticket_id = call.passage.ticket.id
        siblings = self._calls_of[ticket_id]
        siblings.remove(call)
        if not siblings:
            del self._calls_of[ticket_id]
        self._free(call, call.seats)

    def _free(self, call: _Call, sequences: int) -> None:
        """So many sequences of a call are over."""
        call.seats -= sequences
        call.passage.ended_sequences += sequences
        self._occupy(call.passage)

    def _occupy(self, passage: Passage) -> None:
        """The seats of the calls under way, and of those of the reservation that are still to come."""
        under_way = sum(call.seats for call in self._calls_of.get(passage.ticket.id, ()))
        passage.occupy(max(under_way, passage.ticket.seats - passage.ended_sequences))

    def _account(self, journey: Trip, finished: bool, *, settle: bool) -> None:
        journey.calls_completed += finished
        journey.calls_failed += not finished
        if settle and journey.passage is not None:
            journey.passage.leave(Ending.COMPLETED if finished else Ending.FAILED)

    def _abort_calls(self, passage: Passage) -> None:
        for call in self._calls_of.get(passage.ticket.id, ()):
            self._send(self._insist(call))

    async def _insist(self, call: _Call) -> None:
        """Abort until the call is over: an abort that overtakes its own request finds nothing to stop."""
        while call.open:
            await self.engine.abort(call.id)
            self._free(call, call.seats)
            await asyncio.sleep(_ABORT_AGAIN_S)

    async def _stop(self, stream: AsyncGenerator[Any, None] | None, call_id: str) -> None:
        """Leave nothing behind in the engine, also for a call that was cancelled while it was being added."""
        try:
            if stream is not None:
                await stream.aclose()
            await self.engine.abort(call_id)
        finally:
            self._stopping.discard(call_id)

    def _send(self, errand: Coroutine[Any, Any, None]) -> None:
        """Run an errand apart from the caller, whose own awaits may be under cancellation again and again."""
        task = asyncio.get_running_loop().create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._errand_done)

    def _errand_done(self, task: asyncio.Task[None]) -> None:
        self._errands.discard(task)
        if not task.cancelled():
            task.exception()  # an engine that is gone cannot be asked to abort; there is nothing left to stop


TRIP: ContextVar[Trip | None] = ContextVar("headway_trip", default=None)
