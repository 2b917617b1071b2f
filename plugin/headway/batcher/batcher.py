"""The batcher: batches of any function from single requests, for embedders, rerankers and classic models.

It is an asyncio shell around a desk of its own, and owns the clock, one timer and the futures on which submitters wait;
the desk decides which requests leave, together with which others, and when. One batch runs at a time. Nothing is
polled: an idle batcher has no task and no timer.

Ownership: a member is in ``_members`` from its arrival until its end was reported to the desk. A batch's task settles
its members, the desk those that wait; a cancelled submitter's seat stays taken until the call it is in is over.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self, assert_never

from headway.batcher.arguments import number, whole_number, without_coroutine
from headway.batcher.function import BatchFunction, ProcessBatch, R, T, is_async
from headway.batcher.request import InferenceRequest
from headway.batcher.settings import MAX_TOKENS, batch_preset, class_name, without_window
from headway.batcher.stats import BatcherStats, batcher_stats
from headway.errors import BatchFunctionError, refusal
from headway_policies import (
    Abort,
    Degrade,
    Desk,
    Dispatch,
    Effect,
    Ending,
    Expire,
    Reason,
    Recall,
    Reject,
    Requeue,
    Ticket,
    Timeouts,
    WakeAt,
)

log = logging.getLogger(__name__)

_LISTED = 16  # members of a failed batch that its log line names
_MAX_ID_CHARS = 64


@dataclass(slots=True, eq=False)
class _Member(Generic[T, R]):
    """A request: its item, and the future of its result."""

    id: int
    item: T
    answer: asyncio.Future[R]
    ticket: Ticket
    dispatched: bool = False

    def __str__(self) -> str:
        """The id, class and size for a log line: nothing of the item itself."""
        own = self.item.request_id if isinstance(self.item, InferenceRequest) else str(self.id)
        shown = "".join(letter if letter.isprintable() else "?" for letter in str(own)[:_MAX_ID_CHARS])
        return f"{shown} ({self.ticket.class_name}, {self.ticket.total_tokens} tokens)"


class Batcher(Generic[T, R]):
    """Batches of any function, sync or async, that maps a list of items to as many results in the same order.

    A batch leaves when ``max_batch_size`` items or ``max_total_tokens`` tokens are here, or when its first item has
    waited ``max_wait_ms``, one of the highest priority ``urgent_wait_ms``. An item larger than the budget runs alone.
    ``count_tokens`` tells an item's size; without it each counts as one, but an ``InferenceRequest`` as its prompt and
    its ``max_tokens``. A batch that fails is logged with the ids, classes and sizes of its members. ``validate`` raises
    for an item that must not get into a batch; both are plain functions. At most ``max_size`` wait. The function must
    not wait for the batcher it runs in, which waits for the function. Raises ValueError, and TypeError for what cannot
    be called.
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
    ) -> None:
        preset = batch_preset(
            max_batch_size=max_batch_size,
            max_wait_ms=max_wait_ms,
            urgent_wait_ms=urgent_wait_ms,
            max_total_tokens=max_total_tokens,
            priority_classes=priority_classes,
            max_size=max_size,
        )
        _check_functions(process_batch, count_tokens, validate)
        self._desk = Desk(preset)
        self._process = BatchFunction(process_batch)
        self._count_tokens = count_tokens
        self._validate = validate
        self._ids = itertools.count(1)
        self._members: dict[int, _Member[T, R]] = {}
        self._called: list[_Member[T, R]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None  # held: the loop itself keeps a task only weakly
        self._timer: asyncio.TimerHandle | None = None
        self._at_rest = asyncio.Event()
        self._at_rest.set()
        self._closing = False
        self._batches = self._requests = 0

    # ------------------------------------------------------------------ one request

    async def submit(
        self,
        item: T,
        priority: int | str = 0,
        timeout: float | None = None,  # noqa: ASYNC109 - the desk keeps it
        tokens: int | None = None,
    ) -> R:
        """The result for one item.

        ``priority`` from 0, larger is more urgent, or a name of three: batch, normal, realtime; ``timeout`` in seconds,
        from now. An ``InferenceRequest`` has its own, which count unless given. Raises what ``validate`` or the
        function raised for this very item, Refused (Rejected, Expired, TimedOut), or UnknownClassError for a priority
        that does not exist, ValueError for a wrong ``timeout`` or ``tokens``: then nothing has happened. Cancelling
        takes the item out, or drops its result.
        """
        member = self._enter(item, priority, timeout, tokens)
        try:
            return await member.answer
        except asyncio.CancelledError:
            self._gone(member)
            raise

    def stats(self) -> BatcherStats:
        """The figures so far. May be called from any thread."""
        return batcher_stats(self._desk, self._batches, self._requests)

    @property
    def runs_here(self) -> bool:
        """Whether the caller is the batch function itself, in the thread kept for it."""
        return self._process.runs_here

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
        self._process.close()
        if self._timer is not None:
            self._timer.cancel()

    # ------------------------------------------------------------------ arrivals and ends

    def _enter(self, item: T, priority: int | str, timeout_s: float | None, tokens: int | None) -> _Member[T, R]:
        now_s = self._now_s()
        if self._validate is not None and not without_coroutine(self._validate(item)):
            raise _must_be_plain("validate")
        if isinstance(item, InferenceRequest):
            priority = item.priority if priority == 0 else priority
            timeout_s = item.timeout if timeout_s is None else timeout_s
        prompt_tokens, max_tokens = self._size(item, tokens)
        ticket = Ticket(
            next(self._ids),
            class_name(priority, len(self._desk.preset.classes)),
            now_s,
            asked=Timeouts(total_s=None if timeout_s is None else number("timeout", timeout_s)),
            prompt_tokens=prompt_tokens,
            max_tokens=max_tokens,
        )
        if self._closing:
            raise refusal(Reason.DRAINING, self._desk.retry_after_s(now_s))
        effects = self._desk.arrive(ticket, now_s)
        member = self._members[ticket.id] = _Member(ticket.id, item, asyncio.get_running_loop().create_future(), ticket)
        self._at_rest.clear()
        self._carry_out(effects)
        return member

    def _size(self, item: T, tokens: int | None) -> tuple[int, int]:
        """The tokens of an item, and the tokens that it may generate. Raises ValueError for no whole number."""
        most_tokens = 0
        if tokens is None and self._count_tokens is not None:
            tokens = self._count_tokens(item)
            if not without_coroutine(tokens):
                raise _must_be_plain("count_tokens")
        elif tokens is None and isinstance(item, InferenceRequest):
            tokens, most_tokens = item.size_tokens, whole_number("max_tokens", item.max_tokens, 0, MAX_TOKENS)
        elif tokens is None:
            tokens = 1
        return max(1, whole_number("tokens", tokens, 0, MAX_TOKENS)), most_tokens

    def _gone(self, member: _Member[T, R]) -> None:
        """Take out a member whose submitter was cancelled, or stop its call."""
        if not member.answer.cancelled():
            member.answer.exception()  # the result came in the same turn of the loop, and will not be read
        elif member.dispatched:
            self._stop_if_unwanted()
        else:
            self._leave(member, Ending.CANCELLED)

    def _leave(self, member: _Member[T, R], ending: Ending) -> None:
        """Report the end to the desk; the last end of a batch lets the next batch leave."""
        self._carry_out(self._desk.leave(member.id, ending, self._now_s()))
        self._forget(member)

    def _forget(self, member: _Member[T, R]) -> None:
        self._members.pop(member.id, None)  # its time may have run out in the same event
        if not self._members:
            self._at_rest.set()

    # ------------------------------------------------------------------ the desk's effects

    def _carry_out(self, effects: list[Effect]) -> None:
        batch: list[_Member[T, R]] = []
        for effect in effects:
            match effect:
                case Dispatch():
                    batch.append(self._members[effect.ticket_id])
                case Reject() | Expire():
                    member = self._members[effect.ticket_id]
                    self._forget(member)
                    _refuse(member, effect.reason, effect.retry_after_s)
                case Abort():
                    _refuse(self._members[effect.ticket_id], effect.reason, self._desk.retry_after_s(self._now_s()))
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

    def _begin(self, batch: list[_Member[T, R]]) -> None:
        """Run members that were dispatched together: the barrier of the desk allows one batch at a time."""
        for member in batch:
            member.dispatched = True
        self._batches += 1
        self._requests += len(batch)
        self._task = asyncio.get_running_loop().create_task(self._run(batch))

    async def _run(self, batch: list[_Member[T, R]]) -> None:
        """Serve a batch. After any error each member is settled, and the next batch may leave."""
        try:
            await self._serve(batch)
        finally:
            for member in batch:
                if member.id in self._members:
                    self._fail(member, BatchFunctionError("the batch function was cancelled"))

    async def _serve(self, batch: list[_Member[T, R]]) -> None:
        """Run the members that were not cancelled: together, and one by one after an error."""
        wanted = self._called = [member for member in batch if not member.answer.done()]
        if not wanted:
            return
        try:
            results = await self._process([member.item for member in wanted])
        except Exception as error:
            kind = type(error).__name__
            if len(wanted) == 1:
                log.warning("a request failed, alone in its batch: %s: %s", kind, wanted[0])
                self._fail(wanted[0], error)
                return
            members = ", ".join(map(str, wanted[:_LISTED]))
            more = f" and {len(wanted) - _LISTED} more" if len(wanted) > _LISTED else ""
            log.warning(
                "a batch of %d failed; its members are retried one by one: %s: %s%s", len(wanted), kind, members, more
            )
            for member in wanted:
                await self._serve([member])
        else:
            for member, result in zip(wanted, results, strict=True):
                self._complete(member, result)

    def _complete(self, member: _Member[T, R], result: R) -> None:
        self._leave(member, Ending.CANCELLED if member.answer.cancelled() else Ending.COMPLETED)
        if not member.answer.done():
            member.answer.set_result(result)

    def _fail(self, member: _Member[T, R], error: Exception) -> None:
        self._leave(member, Ending.CANCELLED if member.answer.cancelled() else Ending.FAILED)
        if not member.answer.done():
            member.answer.set_exception(error)

    def _stop_if_unwanted(self) -> None:
        """Stop a call when all its submitters were cancelled."""
        if all(member.answer.done() for member in self._called):
            self._process.stop()


def _check_functions(process_batch: Any, count_tokens: Any, validate: Any) -> None:
    """Raise TypeError for a wrong function at construction, not at the first request."""
    for name, function in (("process_batch", process_batch), ("count_tokens", count_tokens), ("validate", validate)):
        if not callable(function) and (function is not None or name == "process_batch"):
            without_coroutine(function)
            raise TypeError(f"{name} must be a function, not {type(function).__name__}")
        if name != "process_batch" and is_async(function):
            raise _must_be_plain(name)


def _must_be_plain(name: str) -> TypeError:
    return TypeError(f"{name} must be a plain function, not one that must be awaited")


def _refuse(member: _Member[T, R], reason: Reason, retry_after_s: int) -> None:
    if not member.answer.done():
        member.answer.set_exception(refusal(reason, retry_after_s))


__all__ = ["Batcher", "BatcherStats"]
