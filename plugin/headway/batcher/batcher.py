"""The batcher: batches of any function from single requests, for embedders, rerankers and classic models.

The batcher is an asyncio shell around a desk of its own, and owns the clock, one timer and the futures on which
submitters wait; the desk decides which requests leave, together with which others, and when. Batches run one at a time.
Nothing is polled: an idle batcher has no task and no timer.

Ownership: a member is in ``_members`` from its arrival until its end was reported to the desk. A batch's task settles
its members, the desk those that wait; a cancelled submitter's seat stays taken until the call it is in is over.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from traceback import clear_frames
from types import TracebackType
from typing import Generic, Self, assert_never

from headway.batcher.arguments import number, plain, whole_number
from headway.batcher.function import BatchFunction, ProcessBatch, R, T, check_functions, failure_of, out_of_memory
from headway.batcher.member import Member, full_batch, listed
from headway.batcher.request import InferenceRequest
from headway.batcher.settings import MAX_TOKENS, batch_preset, class_name, without_window
from headway.batcher.stats import BatcherStats, batcher_stats
from headway.errors import BatchFunctionError, Expired, Refused, TimedOut, refusal
from headway_policies import (
    Abort,
    Block,
    Degrade,
    Desk,
    Dispatch,
    Effect,
    Ending,
    Expire,
    Load,
    Reason,
    Recall,
    Reject,
    Requeue,
    Ticket,
    Timeouts,
    WakeAt,
)

log = logging.getLogger(__name__)


class Batcher(Generic[T, R]):
    """Batches of any function, sync or async, that maps a list of items to as many results in the same order.

    A batch leaves when ``max_batch_size`` items or ``max_total_tokens`` tokens are here, or when its first item has
    waited ``max_wait_ms``, one of the highest priority ``urgent_wait_ms``. An item larger than the budget runs alone.
    ``count_tokens`` tells an item's size; without it each counts as one, but an ``InferenceRequest`` as its prompt and
    its ``max_tokens``. A batch that fails is logged with the ids, classes and sizes of its members. ``validate`` raises
    for an item that must not get into a batch. At most ``max_size`` wait. The function must not wait for the batcher it
    runs in, which waits for the function.

    ``latency_ms``: batches that take longer become smaller, and grow again up to ``max_batch_size`` while they take
    less. ``on_timeout`` is called with an item that has run out of time and its refusal: its result takes the place of
    that error. ``clear_cache`` runs in the function's thread after a batch that ran out of memory, at most every
    ``clear_every_s``, before its halves are tried. All but the batch function are plain functions. Raises ValueError,
    and TypeError for what cannot be called.
    """

    def __init__(
        self,
        process_batch: ProcessBatch[T, R],
        max_batch_size: int = 32,
        max_wait_ms: float = 50,
        max_total_tokens: int = 8192,
        priority_classes: int = 3,
        *,
        count_tokens: Callable[[T], int] | None = None,
        validate: Callable[[T], object] | None = None,
        max_size: int = 10_000,
        urgent_wait_ms: float = 0,
        latency_ms: float | None = None,
        on_timeout: Callable[[T, Refused], R] | None = None,
        clear_cache: Callable[[], object] | None = None,
        clear_every_s: float = 300,
    ) -> None:
        preset = batch_preset(
            max_batch_size=max_batch_size,
            max_wait_ms=max_wait_ms,
            urgent_wait_ms=urgent_wait_ms,
            max_total_tokens=max_total_tokens,
            priority_classes=priority_classes,
            max_size=max_size,
            latency_ms=latency_ms,
        )
        check_functions(
            process_batch=process_batch,
            count_tokens=count_tokens,
            validate=validate,
            on_timeout=on_timeout,
            clear_cache=clear_cache,
        )
        self._desk = Desk(preset)
        self._process = BatchFunction(process_batch, clear_cache, number("clear_every_s", clear_every_s))
        self._count_tokens = count_tokens
        self._validate = validate
        self._adapts = latency_ms is not None
        self._on_timeout = on_timeout
        self._warming = asyncio.Lock()
        self._ids = itertools.count(1)
        self._members: dict[int, Member[T, R]] = {}
        self._called: list[Member[T, R]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None  # held: the loop itself keeps a task only weakly
        self._timer: asyncio.TimerHandle | None = None
        self._at_rest = asyncio.Event()
        self._at_rest.set()
        self._closing = False
        self._batches = self._requests = self._degraded = 0

    # ------------------------------------------------------------------ one request

    async def submit(
        self,
        item: T,
        priority: int | str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the desk keeps it
        tokens: int | None = None,
    ) -> R:
        """The result for one item.

        ``priority`` from 0, larger is more urgent, or a name of three: batch, normal, realtime; without it, 0.
        ``timeout`` in seconds, from now. An ``InferenceRequest`` has its own, which count unless given. Raises what
        ``validate`` or the function raised for this very item, Refused (Rejected, Expired, TimedOut), or
        UnknownClassError for a priority that does not exist, ValueError for a wrong ``timeout`` or ``tokens``: then
        nothing has happened. Cancelling takes the item out, or drops its result.
        """
        member = self._enter(item, priority, timeout, tokens)
        try:
            return await member.answer
        except asyncio.CancelledError:
            self._gone(member)
            raise

    def stats(self) -> BatcherStats:
        """The figures so far. May be called from any thread."""
        return batcher_stats(self._desk, self._batches, self._requests, self._degraded)

    @property
    def runs_here(self) -> bool:
        """Whether the caller is the batch function itself, in the thread kept for it."""
        return self._process.runs_here

    async def warm_up(self, items: Sequence[T]) -> None:
        """Run the function on the first of these items alone, then on a full batch of them, over and over.

        Take items of representative lengths. Their results are dropped and nothing is counted; requests wait meanwhile.
        Raises what the function raises, ValueError without an item, and Rejected once the batcher ends.
        """
        batching = self._desk.preset.batching
        batch = full_batch(items, lambda item: sum(self._size(item, None)), batching.seats, batching.max_total_tokens)
        if not batch:
            raise ValueError("warm_up needs an item at least")
        async with self._warming:
            if self._closing:
                raise refusal(Reason.DRAINING, 1)
            self._carry_out(self._desk.pause(self._now_s(), Block.WARMUP))
            try:
                if self._task is not None:
                    await asyncio.wait([self._task])
                for called in (batch[:1], batch):
                    await self._process(called)
            finally:
                self._carry_out(self._desk.resume(self._now_s(), Block.WARMUP))

    # ------------------------------------------------------------------ the end

    async def drain(self) -> None:
        """Refuse new requests; finish the others, without a batch window. Ends when all is done."""
        self._closing = True
        self._carry_out(self._desk.switch(without_window(self._desk.preset), self._now_s()))
        await self._rest()

    async def close(self) -> None:
        """End everything now: waiting and running requests are Rejected. Ends when the batch function has returned."""
        self._closing = True
        self._carry_out(self._desk.engine_lost(self._now_s(), Reason.DRAINING))
        await self._rest()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Drain; close after an error."""
        await (self.drain() if kind is None else self.close())

    async def _rest(self) -> None:
        await self._at_rest.wait()
        async with self._warming:
            self._process.close()
        if self._timer is not None:
            self._timer.cancel()

    # ------------------------------------------------------------------ arrivals and ends

    def _enter(self, item: T, priority: int | str | None, timeout_s: float | None, tokens: int | None) -> Member[T, R]:
        now_s = self._now_s()
        if self._validate is not None:
            plain("validate", self._validate(item))
        if isinstance(item, InferenceRequest):
            priority = item.priority if priority is None else priority
            timeout_s = item.timeout if timeout_s is None else timeout_s
        prompt_tokens, max_tokens = self._size(item, tokens)
        ticket = Ticket(
            next(self._ids),
            class_name(0 if priority is None else priority, len(self._desk.preset.classes)),
            now_s,
            asked=Timeouts(total_s=None if timeout_s is None else number("timeout", timeout_s)),
            prompt_tokens=prompt_tokens,
            max_tokens=max_tokens,
        )
        if self._closing:
            raise refusal(Reason.DRAINING, self._desk.retry_after_s(now_s))
        effects = self._desk.arrive(ticket, now_s)
        member = self._members[ticket.id] = Member(ticket.id, item, asyncio.get_running_loop().create_future(), ticket)
        self._at_rest.clear()
        self._carry_out(effects)
        return member

    def _size(self, item: T, tokens: int | None) -> tuple[int, int]:
        """The tokens of an item, and the tokens that it may generate. Raises ValueError for no whole number."""
        most_tokens = 0
        if tokens is None and self._count_tokens is not None:
            tokens = plain("count_tokens", self._count_tokens(item))
        elif tokens is None and isinstance(item, InferenceRequest):
            tokens, most_tokens = item.size_tokens, whole_number("max_tokens", item.max_tokens, 0, MAX_TOKENS)
        elif tokens is None:
            tokens = 1
        return max(1, whole_number("tokens", tokens, 0, MAX_TOKENS)), most_tokens

    def _gone(self, member: Member[T, R]) -> None:
        """Take out a member whose submitter was cancelled, or stop its call."""
        if not member.answer.cancelled():
            member.answer.exception()  # the result came in the same turn of the loop, and will not be read
        elif member.dispatched:
            self._stop_if_unwanted()
        else:
            self._leave(member, Ending.CANCELLED)

    def _leave(self, member: Member[T, R], ending: Ending) -> None:
        """Report the end to the desk; the last end of a batch lets the next batch leave."""
        self._carry_out(self._desk.leave(member.id, ending, self._now_s()))
        self._forget(member)

    def _forget(self, member: Member[T, R]) -> None:
        self._members.pop(member.id, None)  # its time may have run out in the same event
        if not self._members:
            self._at_rest.set()

    # ------------------------------------------------------------------ the desk's effects

    def _carry_out(self, effects: list[Effect]) -> None:
        batch: list[Member[T, R]] = []
        for effect in effects:
            match effect:
                case Dispatch():
                    batch.append(self._members[effect.ticket_id])
                case Reject() | Expire():
                    member = self._members[effect.ticket_id]
                    self._forget(member)
                    self._refuse(member, effect.reason, effect.retry_after_s)
                case Abort():
                    member = self._members[effect.ticket_id]
                    self._refuse(member, effect.reason, self._desk.retry_after_s(self._now_s()))
                    self._stop_if_unwanted()
                case WakeAt():
                    self._arm(effect.at_s)
                case Degrade():
                    raise AssertionError("only a fallback ladder degrades requests, and a batcher has none")
                case Recall():
                    raise AssertionError("no ticket makes room for another where its batch cannot be stopped")
                case Requeue():
                    raise AssertionError(
                        "a request is requeued only when its engine died, and a batch function never does"
                    )
                case _:
                    assert_never(effect)
        if batch:
            self._begin(batch)

    def _arm(self, at_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._carry_out(self._desk.tick(self._now_s()))

    def _now_s(self) -> float:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        if self._loop is not loop:
            raise RuntimeError("a Batcher serves one event loop only; SyncBatcher serves threads")
        return loop.time()

    # ------------------------------------------------------------------ a batch

    def _begin(self, batch: list[Member[T, R]]) -> None:
        """Run members that were dispatched together: the barrier of the desk allows one batch at a time."""
        for member in batch:
            member.dispatched = True
        self._batches += 1
        self._requests += len(batch)
        self._task = asyncio.get_running_loop().create_task(self._run(batch))

    async def _run(self, batch: list[Member[T, R]]) -> None:
        """Serve a batch. After any error each member is settled, and the next batch may leave."""
        try:
            await self._serve(batch)
        finally:
            for member in batch:
                if member.id in self._members:
                    self._fail(member, BatchFunctionError("the batch function was cancelled"))

    async def _serve(self, batch: list[Member[T, R]]) -> None:
        """Run the members that were not cancelled: together, and after an error one by one, or by halves where the
        memory was too small.
        """
        wanted = self._called = [member for member in batch if not member.answer.done()]
        if not wanted:
            return
        began_s = self._now_s()
        try:
            results = await self._process([member.item for member in wanted])
        except Exception as error:
            short = out_of_memory(error)
            if short:
                clear_frames(error.__traceback__)  # they hold what the batch had in memory
                await self._process.clear_cache(self._now_s())
            if len(wanted) == 1:
                log.warning("a request failed, alone in its batch: %s: %s", type(error).__name__, wanted[0])
                self._fail(wanted[0], error)
                return
            size = -(-len(wanted) // 2) if short else 1
            log.warning(
                "a batch of %d failed; its members are retried %s: %s: %s",
                len(wanted), "by halves" if short else "one by one", type(error).__name__, listed(wanted),
            )  # fmt: skip
            for first in range(0, len(wanted), size):
                await self._serve(wanted[first : first + size])
        else:
            if self._adapts:
                load = Load(len(wanted), waiting=0, kv_usage_ratio=0.0, inter_token_s=self._now_s() - began_s)
                self._carry_out(self._desk.observe(load, self._now_s()))
            self._settle(wanted, results)

    def _settle(self, members: list[Member[T, R]], results: list[R]) -> None:
        """Give each member its result; an exception in its place fails that member alone."""
        failures = [failure_of(result) for result in results]
        failed = [member for member, error in zip(members, failures, strict=True) if error is not None]
        if failed:
            log.warning("%d of a batch of %d failed: %s", len(failed), len(members), listed(failed))
        for member, result, error in zip(members, results, failures, strict=True):
            if error is None:
                self._complete(member, result)
            else:
                self._fail(member, error)

    def _complete(self, member: Member[T, R], result: R) -> None:
        self._leave(member, Ending.CANCELLED if member.answer.cancelled() else Ending.COMPLETED)
        if not member.answer.done():
            member.answer.set_result(result)

    def _fail(self, member: Member[T, R], error: Exception) -> None:
        self._leave(member, Ending.CANCELLED if member.answer.cancelled() else Ending.FAILED)
        if not member.answer.done():
            member.answer.set_exception(error)

    def _refuse(self, member: Member[T, R], reason: Reason, retry_after_s: int) -> None:
        """End a member with its refusal, or after a time-out with the caller's substitute."""
        if member.answer.done():
            return
        error = refusal(reason, retry_after_s)
        if self._on_timeout is None or not isinstance(error, Expired | TimedOut):
            member.answer.set_exception(error)
            return
        try:
            member.answer.set_result(plain("on_timeout", self._on_timeout(member.item, error)))
            self._degraded += 1
        except Exception as failed:
            member.answer.set_exception(failure_of(failed) or failed)

    def _stop_if_unwanted(self) -> None:
        """Stop a call when all its submitters were cancelled."""
        if all(member.answer.done() for member in self._called):
            self._process.stop()


__all__ = ["Batcher", "BatcherStats"]
