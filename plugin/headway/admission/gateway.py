"""The gateway: carries each engine call through the gate.

Ownership of a request. Inside an HTTP request there is a ``RequestContext``: the middleware made it, all calls of that
request share its one permit, and the middleware settles it when the response is over. Without a context the call is a
program's own, and is settled when its generator ends. A cancelled call settles it at once in both cases, unless another
call of the request has failed: then the response determines the outcome. A call that has sent no output when the engine
dies is retried, under another id, when its permit is dispatched again. A call that a paused engine refuses
(vLLM from 0.33 on) is retried on the seats of its permit once the engine runs, unless the request times out before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from math import isnan, nan
from typing import Any, TypeVar

from headway.admission.diversion import Diversion
from headway.admission.engine_calls import Call
from headway.admission.engine_link import EngineLink
from headway.admission.gate import Gate
from headway.admission.model_names import ModelNames
from headway.admission.permit import Permit
from headway.admission.request_context import BUDGET, REQUEST_CONTEXT, RequestContext
from headway.engine import Ended, Engine, EngineAdapter
from headway.errors import Refused, TooWideError, refusal
from headway_policies import Ending

_ABORT_AGAIN_S = 0.25
_POLL_S = 0.1
_REPORTS_AWAITED = 5

T = TypeVar("T")
Start = Callable[[str, int, int | None], AsyncGenerator[Any, None]]


class Gateway:
    """The calls of one engine, each behind its gate. The state of the engine is in ``link``.

    ``max_request_seats`` is the most sequences that one request may ask for; without it, all the seats of the engine.
    ``diversion`` leads to another engine of the program. ``model`` is the name of the model in the accounts, ``names``
    are all of it and of its adapters; None where the number of adapters is not bounded. ``unseated`` counts the
    sequences in the engine that hold no seat: the server's own, and those that ended here a moment before they end in
    the engine.
    """

    def __init__(
        self, gate: Gate, adapter: EngineAdapter, engine: Engine, *, max_request_seats: int | None = None
    ) -> None:
        self.gate = gate
        self.link = EngineLink(gate, adapter, engine)
        self.max_request_seats = max_request_seats
        self.diversion: Diversion | None = None
        self.names: ModelNames | None = None
        self.model = ""
        self.unseated = 0
        self._polled_s = 0.0

    # ------------------------------------------------------------------ one call

    def announce(self, context: RequestContext, answers: int) -> None:
        """Note how many answers vLLM is about to generate for each prompt, and reserve their seats. Raises Refused.

        A request whose grammar is compiled first gets them afterwards; it is refused here where it is too wide.
        """
        asked = context.asked
        if context.bypass or asked.detached:
            return
        context.answers = max(1, answers, asked.answers if asked.route.sampling else 1)
        if asked.large_grammar:
            self._check_width(context.answers * asked.prompts)
        else:
            self.reserve(context, context.answers)

    def reserve(self, context: RequestContext, seats: int) -> Permit:
        """The permit of a context, issued on first use: for the answers that were announced, or for its first call.

        Raises Refused. Where a dead engine is not replaced, each new request reports its death: a program has no
        supervisor.
        """
        if self.link.loop.own is None:
            self.link.begin()
        if context.permit is None:
            if self.link.death_handler is None:
                self.link.check_engine()
            if context.on_arrival is not None:
                arrival, context.on_arrival = context.on_arrival, None
                arrival()
            sequences = max(seats, context.answers) * context.asked.prompts
            self._check_width(sequences)
            permit = self._enter(context, sequences)
            permit.on_stop, permit.on_abort = partial(self._stop_calls, permit), context.on_given_up
            context.permit = permit
            if context.on_entered is not None:
                context.on_entered()
        return context.permit

    def _enter(self, context: RequestContext, sequences: int) -> Permit:
        """Ask for a permit. An HTTP request whose class a switch has taken away meanwhile is of the default class, as
        one that waits is; a program's own class is its caller's mistake. Raises Refused or UnknownClassError.
        """
        class_name, of_client = context.class_name, REQUEST_CONTEXT.get() is context
        if class_name not in self.gate.desk.preset.classes and of_client:
            class_name = None
        if context.lowered is not None and context.lowered.reason != BUDGET:
            self.gate.lowered[context.lowered.asked] += 1
        try:
            return self.gate.enter(
                class_name,
                key=context.key,
                model=self.model,
                tenant=context.tenant,
                share=context.share,
                seats=sequences,
                timeouts=context.timeouts,
                prompt_tokens=context.asked.prompt_tokens,
                prompt_bytes=context.asked.prompt_bytes,
                max_tokens=context.max_tokens,
                may_wait=context.may_wait,
                prefix=context.prefix,
                adapter=self._adapter(context.asked.model, of_client=of_client),
            )
        except Refused as refused:
            # a new error: the raised one holds references to its callers, also to the context
            context.rejected = refusal(refused.reason, refused.retry_after_s)
            raise

    async def carry(
        self,
        context: RequestContext | None,
        request_id: str,
        seats: int,
        start: Start,
        own: RequestContext,
        *,
        unstreamed: bool = False,
        ends_late: bool = False,
    ) -> AsyncGenerator[Any, None]:
        """Run one engine call behind the gate. ``own`` is used when there is no context.

        ``start(id, rank, most_tokens)`` begins it, with a bound on its answer where one was set. An ``unstreamed`` call
        has no output but its last; one that ``ends_late`` may be in the engine for a moment after its end.
        """
        call_context = own if context is None else context
        call: Call | None = None
        stream: AsyncGenerator[Any, None] | None = None
        finished, output, refusals = False, None, 0
        try:
            permit = self.reserve(call_context, seats)
            while call is None:
                await self._turn(permit, paused=refusals > 0)
                call = self.link.calls.open(permit, request_id, seats, unstreamed=unstreamed, ends_late=ends_late)
                bounds = [most for most in (permit.most_tokens, call_context.most_tokens) if most is not None]
                stream = start(call.id, self._rank(permit), min(bounds, default=None))
                try:
                    async for output in stream:
                        if not self._report_output(call, output):
                            break
                        yield output
                except Exception as error:
                    self.link.check_engine()
                    call.refused = not call.shown and await self.link.refused_by_pause(error, refusals)
                    refusals += call.refused
                    if not (call.outlived or call.refused):
                        raise
                if call.outlived or call.refused:  # the engine died, or is paused, before the call had sent output
                    self._close(call, stream)
                    call = stream = output = None
            permit.check()
            finished = output is not None and not self.link.adapter.unfinished(output)
        except (asyncio.CancelledError, GeneratorExit):
            self._account_usage(call, output)
            if call_context.permit is not None and not call_context.calls_failed:  # else cancelled for that failure
                call_context.permit.leave(Ending.CANCELLED)
            raise
        except Refused as refused:
            raise self.link.adapter.error(refused) from None
        except Exception as error:
            if call_context.refused is None:
                call_context.invalid = self.link.adapter.invalid(error)
                raise
            raise self.link.adapter.error(call_context.refused) from error
        finally:
            self._account_usage(call, output)
            self._learn(call, call_context)
            self._close(call, stream, finished=finished)
            self._account(call_context, finished, settle=context is None)

    async def carry_internal(self, stream: AsyncGenerator[Any, None], sequences: int) -> AsyncGenerator[Any, None]:
        """Run one of the server's own calls, without a permit."""
        self.unseated += sequences
        try:
            async with aclosing(stream):
                async for output in stream:
                    yield output
        finally:
            self.unseated -= sequences

    def _report_output(self, call: Call, output: Any) -> bool:
        """Report an output; False for a late one of a dead engine. Raises Refused."""
        permit = call.permit
        permit.check()
        if call.outlived:
            return False
        delay_s = self.link.adapter.first_token_delay_s(output) if permit.token_s is None else nan
        if delay_s is not None and isnan(delay_s):  # seen already, or not known
            permit.progress()
        else:
            permit.first_token(delay_s)
        call.shown = True
        return True

    def class_of(self, priority: int | str | None) -> str | None:
        """The class a program asks for: by name, by number (larger = more urgent), or None for the default."""
        return self.gate.desk.preset.class_for_priority(priority) if isinstance(priority, int) else priority

    def engine_stepped(self, ended: Sequence[Ended], sequences: int | None = None) -> None:
        """The engine made a step: free the seats of the sequences that ended, however slowly the client reads.

        A few times a second, poll the progress of the calls without streamed output.
        """
        link = self.link
        if sequences is not None:
            link.reported = sequences
        if link.watchdog is not None:
            link.watchdog.heard(self.gate.now_s())
        if self.gate.listeners.usage is not None:
            self.gate.listeners.tell(self._count, ended)
        late = [
            call for sequence in ended if (call := link.calls.sequence_ended(sequence)) is not None and call.ends_late
        ]
        if late:
            self._end_late(len(late))
        unstreamed = link.calls.unstreamed()
        if not unstreamed or self.gate.now_s() < self._polled_s + _POLL_S:
            return
        self._polled_s = self.gate.now_s()
        for call in unstreamed:
            tokens = link.adapter.tokens(link.engine, call.id)
            if tokens is None or tokens > call.tokens:
                call.tokens = tokens or 0
                call.permit.progress()

    def engine_drops(self, request_ids: Any, *, internal: bool) -> None:
        """Add the engine's counts of these calls to their accounts, before the engine removes them."""
        if self.gate.listeners.usage is not None:
            dropped = partial(self.link.adapter.dropped, self.link.engine, request_ids, internal=internal)
            self.gate.listeners.tell(lambda: self._count(dropped()))

    @property
    def sequences(self) -> int:
        """Sequences in the engine, with and without a seat; never fewer than it really has."""
        return self.gate.desk.sequences + self.unseated

    @property
    def open_calls(self) -> int:
        """Engine calls under way."""
        return len(self.link.calls)

    # ------------------------------------------------------------------ inside

    async def _turn(self, permit: Permit, *, paused: bool) -> None:
        """Wait until the request may use the engine; where that died between two of its calls, for the next one, and
        where it was ``paused`` and refused one, until it runs.

        Raises Refused.
        """
        await permit.admitted()
        while self.link.restarting or (paused and self.link.pause.known):
            await asyncio.sleep(_POLL_S)
            await permit.admitted()

    def _rank(self, permit: Permit) -> int:
        """The class's place, 0 the most urgent: the engine's smaller-is-first priority."""
        ranked = self.gate.desk.preset.by_urgency()
        name = permit.ticket.class_name
        return ranked.index(name) if name in ranked else len(ranked)

    def _count(self, ended: Sequence[Ended]) -> None:
        """Add sequences that have ended, or are dropped, to the accounts of their requests, or of the server."""
        for sequence in ended:
            if not self.link.calls.count(sequence):
                self.gate.listeners.unclaimed(sequence, self.model)

    def _account_usage(self, call: Call | None, output: Any) -> None:
        """Count the tokens of a call, by its last output, where the engine has not reported them."""
        if call is not None and output is not None and not call.accounted:
            self.link.calls.account(call, self.link.adapter.usage(output, call.seats))

    def _adapter(self, name: str | None, *, of_client: bool) -> str | None:
        """The adapter of a request. A program names one that it has; the name of a client is not trusted."""
        if self.names is None or not name:
            return None
        return self.names.adapter(name) if of_client else name

    def _learn(self, call: Call | None, context: RequestContext) -> None:
        """Note the name of an adapter whose answer has begun, in the account of this request too."""
        if self.names is None or call is None or (call.permit.token_s is None and call.permit.usage is None):
            return
        adapter = self.names.answered(context.asked.model)
        if call.permit.account is not None and adapter is not None:
            call.permit.account.adapter = adapter

    def _account(self, call_context: RequestContext, finished: bool, *, settle: bool) -> None:
        call_context.calls_completed += finished
        call_context.calls_failed += not finished
        if settle and call_context.permit is not None:
            call_context.permit.leave(Ending.COMPLETED if finished else Ending.FAILED)

    def _stop_calls(self, permit: Permit) -> None:
        for call in self.link.calls.of(permit):
            self.link.loop.run_apart(self._abort_until_over(call))

    async def _abort_until_over(self, call: Call) -> None:
        """Abort until the call is over: an abort that overtakes its own request finds nothing to stop.

        Seats are free once the engine has confirmed the abort of a call that it surely had: one that has sent output.
        The client may read the rest later.
        """
        while call.open:
            await self.link.engine.abort(call.id)
            await self._gone(call.seats)
            if call.open and call.shown:
                self.link.calls.free(call, call.seats)
            await asyncio.sleep(_ABORT_AGAIN_S)

    def _close(self, call: Call | None, stream: AsyncGenerator[Any, None] | None, *, finished: bool = False) -> None:
        """A call is over: free its seats; where it did not finish, once the engine has confirmed that it is gone."""
        if call is None:
            return
        reported = not (finished and call.seats and self.link.reported is not None)
        if not reported:
            self._end_late(call.seats, call)  # its last output has overtaken the report of its end
        self.link.calls.close(call, stopping=not finished, reported=reported)
        if not finished:
            self.link.loop.run_apart(self._stop(stream, call))

    async def _stop(self, stream: AsyncGenerator[Any, None] | None, call: Call) -> None:
        """Remove the call from the engine, also one that was cancelled while it was being added."""
        try:
            if stream is not None:
                await stream.aclose()
            await self.link.engine.abort(call.id)
            await self._gone(call.seats)
        finally:
            self.link.calls.stopped(call)

    def _end_late(self, sequences: int, call: Call | None = None) -> None:
        """Count sequences that ended here until the engine, or its report, has ended them too; with them the call."""
        self.unseated += sequences
        self.link.loop.run_apart(self._confirm_end(sequences, call))

    async def _confirm_end(self, sequences: int, call: Call | None) -> None:
        try:
            await self._gone(sequences)
        finally:
            self.unseated -= sequences
            if call is not None:
                self.link.calls.stopped(call)

    async def _gone(self, sequences: int) -> None:
        """Wait until the engine has confirmed that these are gone, and its report does not count them.

        The last report may be older than the abort; the next one is not. The wait is bounded, since a report may
        continue to count sequences of another front end.
        """
        for _ in range(_REPORTS_AWAITED):
            await self.link.caught_up()
            reported = self.link.reported
            if reported is None or reported <= self.sequences - sequences:
                return

    def _check_width(self, sequences: int) -> None:
        """Refuse a request that asks for too many sequences. Raises TooWideError."""
        most = self.max_request_seats or self.gate.desk.ceiling
        if most is not None and sequences > most:
            text = (
                f"the request asks for {sequences} sequences (prompts x n), and this server takes {most} in one request"
            )
            raise TooWideError(f"{text}: send it in parts")
