"""How is a batch function called, and did it keep its promise?

A coroutine function runs on the event loop. Any other function runs in one thread kept for it, so that it never blocks
the loop and a model that wants always to be called from the same thread is; a coroutine it hands out is awaited on the
loop. The promise: as many results as items, in their order.

Known weak spot: a thread cannot be stopped. A function that hangs in it holds up every later batch.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from headway.errors import BatchFunctionError

T = TypeVar("T")
R = TypeVar("R")

ProcessBatch = Callable[[list[T]], Sequence[R] | Awaitable[Sequence[R]]]


class BatchFunction(Generic[T, R]):
    """A batch function of either kind, one call at a time."""

    def __init__(self, function: ProcessBatch[T, R]) -> None:
        self._function = function
        call = getattr(function, "__call__", None)  # noqa: B004 - the method itself is wanted, of an object that has one
        self._on_loop = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="headway-batch")
        self._call: asyncio.Future[Sequence[R]] | None = None

    async def __call__(self, items: list[T]) -> Sequence[R]:
        """The results, one for each item. Raises what the function raises, or BatchFunctionError."""
        if self._on_loop:
            results = self._function(items)
        else:
            results = await asyncio.get_running_loop().run_in_executor(self._thread, self._in_thread, items)
        if isinstance(results, Awaitable):
            results = await self._on_the_loop(results)
        return _checked(results, len(items))

    def stop(self) -> None:
        """Nobody wants the results any more: cancel the call, where it runs on the loop."""
        if self._call is not None:
            self._call.cancel()

    def close(self) -> None:
        """Give the thread back."""
        self._thread.shutdown(wait=False)

    def _in_thread(self, items: list[T]) -> Sequence[R] | Awaitable[Sequence[R]]:
        try:
            return self._function(items)
        except (StopIteration, asyncio.CancelledError) as error:  # no future can carry these as a failure
            raise BatchFunctionError(f"the batch function raised {error!r}") from error

    async def _on_the_loop(self, results: Awaitable[Sequence[R]]) -> Sequence[R]:
        self._call = asyncio.ensure_future(results)
        try:
            return await self._call
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise BatchFunctionError("the batch function was cancelled") from None
        finally:
            self._call = None


def _checked(results: Sequence[R], items: int) -> Sequence[R]:
    """The results if there is one for each item, in an order. A tensor or an array will do."""
    if not hasattr(results, "__len__") or isinstance(results, str | bytes | Mapping | Set):
        raise BatchFunctionError(f"the batch function returned {type(results).__name__}, not a list")
    if len(results) != items:
        raise BatchFunctionError(f"the batch function returned {len(results)} results for {items} items")
    return results
