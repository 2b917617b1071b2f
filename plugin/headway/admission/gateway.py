"""The gateway: carries each ``generate`` call of an engine through the gate.

Ownership of a request. Inside an HTTP request a ``RequestContext`` stands in the context: the middleware made it, all
calls of that request share its one permit, and the middleware settles it when the response is over. Without a context
the call is a program's own, and is settled when its generator ends. A cancelled call is settled at once in both cases.
A call that has shown nothing when the engine dies under it may run again, under another id, when its permit is given
another turn.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from headway.admission.engine_calls import Call, Calls
from headway.admission.engine_pause import EnginePause
from headway.admission.gate import Gate, Permit
from headway.engine import Confirmation, Ended, Engine, EngineAdapter, PendingQueries
from headway.errors import Refused, TooWideError, refusal
from headway_policies import Ending, EngineState, Hold, Reason, Watchdog
from headway_policies.request import NO_TIMEOUTS, Timeouts

log = logging.getLogger(__name__)

_ABORT_AGAIN_S = 0.25
_LOOK_AGAIN_S = 0.1
_MOST_TOLD = 20
_REPORTS_AWAITED = 5
_TELL_WITHIN_S = 5.0  # an engine that is silent hears it when it goes on

T = TypeVar("T")
Start = Callable[[str, int, int | None], AsyncGenerator[Any, None]]


@dataclass(slots=True)
class RequestContext:
    """What the middleware knows of an HTTP request, and the permit all its engine calls share."""

    class_name: str | None = None
    tenant: str = ""
    timeouts: Timeouts = NO_TIMEOUTS
    prompt_tokens: int = 0
    prompt_bytes: int = 0
    max_tokens: int | None = None
    may_wait: bool = True
    bypass: bool = False
    prompts: int = 1
    detached: bool = False
    permit: Permit | None = None
    rejected: Refused | None = None
    on_given_up: Callable[[], None] | None = None
    on_entered: Callable[[], None] | None = None
    calls_failed: int = 0
    calls_completed: int = 0
    turns: asyncio.Semaphore | None = None

    @property
    def refused(self) -> Refused | None:
        """The refusal of this request, if it was refused."""
        return self.rejected if self.permit is None else self.permit.refused


class DeathHandler(Protocol):
    """Whoever can put another engine in the place of a dead one."""

    def handle_death(self) -> None:
        """The engine is dead: tell the gateway what follows. Called on the gate's loop, once for each death."""
        ...


@dataclass(slots=True)
class Gateway:
    """Everything between one engine and its gate.

    ``engine_gone`` is true from the death of an engine until there is another, ``engine_lost`` when there will be none.
    ``limit_pending`` says that the engine has not answered when it was told its limit; ``limit_confirmed`` is false
    then and after an error, until the engine confirms a limit or has none of its own. ``max_request_seats`` is the
    most sequences that one request may ask for; without it, all the seats of the engine. ``unseated`` counts the
    sequences in the engine that hold no seat: the server's own, and those that ended here a moment before they end
    there.
    """

    gate: Gate
    adapter: EngineAdapter
    engine: Engine
    core_limit: int | None = None
    closing: bool = False
    engine_gone: bool = False
    engine_lost: bool = False
    limit_pending: bool = False
    limit_confirmed: bool = True
    max_request_seats: int | None = None
    unseated: int = 0
    death_handler: DeathHandler | None = None
    watchdog: Watchdog | None = None
    calls: Calls = field(default_factory=Calls)
    queries: PendingQueries = field(default_factory=PendingQueries)
    pause: EnginePause = field(init=False)
    _loop: asyncio.AbstractEventLoop | None = None
    _looked_s: float = 0.0
    _abort_failed: bool = False
    _reported: int | None = None
    _errands: set[asyncio.Task[None]] = field(default_factory=set)
    _confirmation: Confirmation = field(init=False)

    def __post_init__(self) -> None:
        self.pause = EnginePause(self.gate)
        self._confirmation = Confirmation(self._ask_in_turn)

    def reserve(self, context: RequestContext, seats: int) -> Permit:
        """The permit of a context, entered on first use. Raises Refused."""
        if self._loop is None:
            self._begin()
        if context.permit is None:
            sequences = max(1, seats * context.prompts)
            self._check_width(sequences)
            try:
                permit = self.gate.enter(
                    context.class_name,
                    tenant=context.tenant,
                    seats=sequences,
                    timeouts=context.timeouts,
                    prompt_tokens=context.prompt_tokens,
                    prompt_bytes=context.prompt_bytes,
                    max_tokens=context.max_tokens,
                    may_wait=context.may_wait,
                )
            except Refused as refused:
                context.rejected = refusal(
                    refused.reason, refused.retry_after_s
                )  # the one raised holds on to the context
                raise
            permit.on_abort = lambda: self._give_up_on(context, permit)
            context.permit = permit
            if context.on_entered is not None:
                context.on_entered()
        return context.permit

    async def carry(
        self,
        context: RequestContext | None,
        request_id: str,
        seats: int,
        start: Start,
        own: RequestContext,
        *,
        silent: bool = False,
        ends_late: bool = False,
    ) -> AsyncGenerator[Any, None]:
        """Run one engine call behind the gate. ``own`` is used when there is no context.

        ``start(id, rank, most_tokens)`` begins it, with an end to its answer where one was set. A ``silent`` call has
        no output but its last; one that ``ends_late`` may be in the engine for a moment after its end.
        """
        call_context = own if context is None else context
        call: Call | None = None
        stream: AsyncGenerator[Any, None] | None = None
        finished, output = False, None
        try:
            permit = self.reserve(call_context, seats)
            while call is None:
                await permit.admitted()
                call = self.calls.open(permit, request_id, seats, silent=silent, ends_late=ends_late)
                stream = start(call.id, self._rank(permit), permit.most_tokens)
                try:
                    async for output in stream:
                        if not self._shows(call, output):
                            break
                        yield output
                except Exception:
                    self.check_engine()
                    if not call.outlived:
                        raise
                if call.outlived:  # the engine died under it: nothing was shown, so it may run again
                    self._close(call, stream)
                    call = stream = output = None
            permit.check()
            finished = output is not None and not self.adapter.unfinished(output)
        except (asyncio.CancelledError, GeneratorExit):
            self._account_usage(call, output)
            if call_context.permit is not None:
                call_context.permit.leave(Ending.CANCELLED)
            raise
        except Refused as refused:
            raise self.adapter.error(refused) from None
        except Exception as error:
            if call_context.refused is None:
                raise
            raise self.adapter.error(call_context.refused) from error
        finally:
            self._account_usage(call, output)
            self._close(call, stream, finished=finished)
            self._account(call_context, finished, settle=context is None)

    async def carry_internal(self, stream: AsyncGenerator[Any, None], sequences: int) -> AsyncGenerator[Any, None]:
        """Run one of the server's own calls, past the gate."""
        self.unseated += sequences
        try:
            async with aclosing(stream):
                async for output in stream:
                    yield output
        finally:
            self.unseated -= sequences

    def _shows(self, call: Call, output: Any) -> bool:
        """Report an output; False for one that comes late, of an engine that is gone. Raises Refused."""
        permit = call.permit
        permit.check()
        if call.outlived:
            return False
        if permit.token_s is None:
            permit.first_token(self.adapter.first_token_delay_s(output))
        else:
            permit.progress()
        call.shown = True
        return True

    def class_of(self, priority: int | str | None) -> str | None:
        """The class a program asks for: by name, by number (larger = more urgent), or None for the default."""
        return self.gate.desk.preset.class_for_priority(priority) if isinstance(priority, int) else priority

    def engine_stepped(self, ended: Sequence[Ended], sequences: int | None = None) -> None:
        """The engine made a step: free the seats of the sequences that ended, however slowly the client reads.

        A few times a second, look whether the calls that show nothing until their end have got on.
        """
        if sequences is not None:
            self._reported = sequences
        if self.watchdog is not None:
            self.watchdog.heard(self.gate.now_s())
        late = [call for one in ended if (call := self.calls.sequence_ended(one)) is not None and call.ends_late]
        if late:
            self._end_late(len(late))
        silent = self.calls.silent()
        if not silent or self.gate.now_s() < self._looked_s + _LOOK_AGAIN_S:
            return
        self._looked_s = self.gate.now_s()
        for call in silent:
            tokens = self.adapter.tokens(self.engine, call.id)
            if tokens is None or tokens > call.tokens:
                call.tokens = tokens or 0
                call.permit.progress()

    async def ask_engine(self, within_s: float | None = None) -> bool:
        """Ask for a sign of life, and whether the engine is paused; False where it cannot be asked.

        Raises NoEngineError when it dies first, TimeoutError, and what the engine raises.
        """
        changes = self.pause.changes
        answer = await self.queries.ask(self.adapter.ping(self.engine), within_s)
        self.pause.said(frozenset() if answer is None else answer.holds, changes)
        return answer is not None

    async def change_pause(self, work: Awaitable[T], hold: Hold | None = None) -> T:
        """Have the engine paused (towards a ``hold``) or resumed, then take its word for how that ended."""
        return await self.pause.change(work, hold, self._look_for_pause)

    def check_engine(self) -> None:
        """Tell the gate when the engine is beyond use."""
        if self.engine.errored:
            self.engine_died()

    def engine_died(self) -> None:
        """The engine is beyond use. While we are closing that is no fault, and ends whom it ran all the same.

        May be called from any thread.
        """
        if not self.engine_gone:
            self.engine_gone = True
            self._on_loop(self._closed if self.closing else self._handle_death)

    def engine_back(self) -> None:
        """There is an engine again, and it may be lost again. Call it on the gate's loop."""
        self.engine_gone = self.engine_lost = False
        self.gate.engine_back()
        self.resend_limit()

    def engine_restarting(self) -> None:
        """Another engine is coming: whoever has shown nothing waits for it. Call it on the gate's loop."""
        self.gate.engine_restarting(lambda permit: not any(call.shown for call in self.calls.of(permit)))

    def give_up(self) -> None:
        """There will be no other engine: answer everybody. Call it on the gate's loop."""
        self.engine_gone = self.engine_lost = True
        self.gate.engine_lost()

    def close_from_any_thread(self, timeout_s: float | None) -> float | None:
        """Refuse newcomers and everybody waiting; what the engine does from now on is no fault.

        Off the loop's thread, wait until the running have ended; returns what is left of the time for it.
        """
        self.closing = True
        if not self._on_loop(self.gate.drain) or not timeout_s:
            return timeout_s
        until_s = time.monotonic() + timeout_s
        while self.gate.desk.ledger.in_flight and time.monotonic() < until_s:
            time.sleep(_LOOK_AGAIN_S)
        return max(0.0, until_s - time.monotonic())

    def closed_from_any_thread(self) -> None:
        """The engine was stopped: answer whoever it was still running, who would wait for ever."""
        self._on_loop(self._closed)

    async def limit_engine(self) -> None:
        """Carry the limit into the engine itself. Without it the gate alone keeps the limit.

        An adaptive limit moves too often for that: the engine gets the most the policy may allow, the gate keeps it.
        """
        seats = self._most_seats()
        self.limit_pending = self.limit_confirmed = False
        try:
            self.core_limit = await self.queries.ask(self.adapter.limit_engine(self.engine, seats), _TELL_WITHIN_S)
        except Exception as error:  # an engine that cannot be told must not undo a switch that is already in force
            self.core_limit = None
            self.limit_pending = isinstance(error, TimeoutError)
            log.warning("the engine's own limit could not be set to %d: %s", seats, error)
        else:
            self.limit_confirmed = True

    def resend_limit(self) -> None:
        """Tell the engine its limit, without waiting for it. Call it on the gate's loop."""
        self._send(self.limit_engine())

    @property
    def sequences(self) -> int:
        """Sequences in the engine, with and without a seat; never fewer than it really has."""
        return self.gate.desk.sequences + self.unseated

    @property
    def open_calls(self) -> int:
        """Engine calls under way."""
        return len(self.calls)

    # ------------------------------------------------------------------ inside

    def _on_loop(self, action: Callable[[], None]) -> bool:
        """Run now when this is the gate's loop, else as soon as the loop gets to it; never once it is closed.

        True when this is another thread, and the loop is still running.
        """
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is not None and self._loop in (None, here):
            action()
        elif self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(action)
            return self._loop.is_running()
        return False

    def _begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self.engine_gone:
            self._handle_death()
        elif self.core_limit is None:
            self.resend_limit()
        if self.closing:
            self.gate.drain()

    def _closed(self) -> None:
        """It was stopped while we were closing, or died then, which is the same."""
        self.queries.end()
        self.gate.engine_lost(Reason.DRAINING)

    async def _look_for_pause(self) -> None:
        """At once, as far as the engine answers; else whenever it does. One that does not say counts as running."""
        try:
            await self.ask_engine(_TELL_WITHIN_S)
        except TimeoutError:
            self._send(self._ask_for_pause())
        except Exception as error:
            log.debug("whether the engine is paused is not known: %s", error)

    async def _ask_for_pause(self) -> None:
        with suppress(Exception):  # it died: another one is not paused
            await self.ask_engine()

    def _handle_death(self) -> None:
        self._reported = None
        self.queries.end()
        self.pause.forget()
        self._write_down()
        if self.death_handler is None:
            self.give_up()
        else:
            self.death_handler.handle_death()

    def _write_down(self) -> None:
        """Whom a dead engine was running: one of them may be the cause."""
        running = list(self.calls)
        for call in running[:_MOST_TOLD]:
            ticket = call.permit.ticket
            log.error(
                "the engine died under %.80s (%s, prompt tokens: %d, sequences: %d), which %s",
                call.id, ticket.class_name, ticket.prompt_tokens, call.seats,
                "had begun to answer" if call.shown else "had shown nothing",
            )  # fmt: skip
        if len(running) > _MOST_TOLD:
            log.error("the engine died under %d more", len(running) - _MOST_TOLD)

    def _rank(self, permit: Permit) -> int:
        """The class's place, 0 the most urgent: the engine's smaller-is-first priority."""
        ranked = self.gate.desk.preset.by_urgency()
        name = permit.ticket.class_name
        return ranked.index(name) if name in ranked else len(ranked)

    def _most_seats(self) -> int:
        """The most seats that can be allowed under the preset in force."""
        desk, limiting = self.gate.desk, self.gate.desk.preset.limit
        bypass_seats = desk.preset.bypass_seats()
        if limiting.shadow or (limiting.policy == "fixed" and not limiting.memory_aware):
            return desk.limit + bypass_seats
        return limiting.max_seats or desk.ceiling or max(desk.limit, desk.preset.batching.seats)

    def _account_usage(self, call: Call | None, output: Any) -> None:
        """What a call used, by its last output, where the engine has not reported it."""
        if call is not None and output is not None and not call.accounted:
            self.calls.account(call, self.adapter.usage(output))

    def _account(self, call_context: RequestContext, finished: bool, *, settle: bool) -> None:
        call_context.calls_completed += finished
        call_context.calls_failed += not finished
        if settle and call_context.permit is not None:
            call_context.permit.leave(Ending.COMPLETED if finished else Ending.FAILED)

    def _give_up_on(self, context: RequestContext, permit: Permit) -> None:
        if context.on_given_up is not None:
            context.on_given_up()
        for call in self.calls.of(permit):
            self._send(self._insist(call))

    async def _insist(self, call: Call) -> None:
        """Abort until the call is over: an abort that overtakes its own request finds nothing to stop.

        Seats are free once the engine has confirmed it, of a call that it surely had: one that has shown something. The
        client may take its time to read the rest.
        """
        while call.open:
            await self.engine.abort(call.id)
            await self._gone(call.seats)
            if call.open and call.shown:
                self.calls.free(call, call.seats)
            await asyncio.sleep(_ABORT_AGAIN_S)

    def _close(self, call: Call | None, stream: AsyncGenerator[Any, None] | None, *, finished: bool = False) -> None:
        """A call is over: free its seats; where it did not finish, once the engine has confirmed that it is gone."""
        if call is None:
            return
        if finished and call.seats and self._reported is not None:
            self._end_late(call.seats)  # its last output has overtaken the report of its end
        self.calls.close(call, stopping=not finished)
        if not finished:
            self._send(self._stop(stream, call))

    async def _stop(self, stream: AsyncGenerator[Any, None] | None, call: Call) -> None:
        """Leave nothing behind in the engine, also for a call that was cancelled while it was being added."""
        try:
            if stream is not None:
                await stream.aclose()
            await self.engine.abort(call.id)
            await self._gone(call.seats)
        finally:
            self.calls.stopped(call)

    def _end_late(self, sequences: int) -> None:
        """These ended here, and the engine is being told so, or has yet to report it: they are counted until then."""
        self.unseated += sequences
        self._send(self._confirm_end(sequences))

    async def _confirm_end(self, sequences: int) -> None:
        try:
            await self._gone(sequences)
        finally:
            self.unseated -= sequences

    async def _gone(self, sequences: int) -> None:
        """Wait until the engine has confirmed that it has none of these any more, and its report does not count them.

        The last report may be older than the abort; the next one is not. One that goes on counting what is not ours
        (another front end's) is not waited for without end.
        """
        for _ in range(_REPORTS_AWAITED):
            await self._confirmation.wait()
            if self._reported is None or self._reported <= self.sequences - sequences:
                return

    async def _ask_in_turn(self) -> None:
        """Wait until the engine has processed what it was sent. One that is gone has nothing left to process."""
        if self.engine_gone or self.gate.desk.engine is EngineState.LOST:
            return
        with suppress(Exception):  # it died, or cannot be asked: then nobody knows better than its abort
            await self.queries.ask(self.adapter.catch_up(self.engine))

    def _check_width(self, sequences: int) -> None:
        """Refuse a request that asks for too many sequences. Raises TooWideError."""
        most = self.max_request_seats or self.gate.desk.ceiling
        if most is not None and sequences > most:
            text = (
                f"the request asks for {sequences} sequences (prompts x n), and this server takes {most} in one request"
            )
            raise TooWideError(f"{text}: send it in parts")

    def _send(self, errand: Coroutine[Any, Any, None]) -> None:
        """Run an errand apart from the caller, whose own awaits may be under cancellation again and again."""
        task = asyncio.get_running_loop().create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._errand_done)

    def _errand_done(self, task: asyncio.Task[None]) -> None:
        """An engine that is gone cannot be asked to abort: there is nothing left to stop. One that lives should."""
        self._errands.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not (self.engine_gone or self.closing or self._abort_failed):
            self._abort_failed = True  # said once: it would fail for every request alike
            log.warning("the engine could not be told to stop a request: %s", type(error).__name__)


REQUEST_CONTEXT: ContextVar[RequestContext | None] = ContextVar("headway_request_context", default=None)
