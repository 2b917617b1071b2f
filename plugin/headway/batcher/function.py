"""The call of a batch function, and the check of its results.

A coroutine function runs on the event loop. Any other function runs in one thread kept for it: it never blocks the
loop, and a model is always called from the same thread. A coroutine that it returns is awaited on the loop. The
function must return as many results as items, in their order.

Known weak spot: a thread cannot be stopped. A function that hangs in it holds up every later batch.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from headway.batcher.arguments import must_be_plain, without_coroutine
from headway.errors import BatchFunctionError

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

ProcessBatch = Callable[[list[T]], Sequence[R] | Awaitable[Sequence[R]]]


class BatchFunction(Generic[T, R]):
    """A batch function of either kind, one call at a time, and what clears its caches, at most every ``every_s``."""

    def __init__(
        self, function: ProcessBatch[T, R], clear_cache: Callable[[], object] | None = None, every_s: float = 0
    ) -> None:
        self._function = function
        self._clear_cache, self._every_s, self._cleared_s = clear_cache, every_s, -math.inf
        self._on_loop = is_async(function)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="headway-batch")
        self._call: asyncio.Future[Sequence[R]] | None = None
        self._thread_id: int | None = None

    @property
    def runs_here(self) -> bool:
        """Whether the caller is the function itself, in the thread kept for it."""
        return self._thread_id == threading.get_ident()

    async def __call__(self, items: list[T]) -> list[R]:
        """The results, in the order of the items. Raises what the function raises, or BatchFunctionError."""
        asked = len(items)  # the list is the function's: it may use it up
        if self._on_loop:
            results = self._function(items)
        else:
            results = await asyncio.get_running_loop().run_in_executor(self._thread, self._in_thread, items)
        if isinstance(results, Awaitable):
            results = await self._on_the_loop(results)
        return _checked(results, asked)

    async def clear_cache(self, now_s: float) -> None:
        """Clear the caches in the function's thread, unless that was done a short time ago. An error is logged."""
        if self._clear_cache is None or now_s - self._cleared_s < self._every_s:
            return
        self._cleared_s = now_s
        try:
            cleared = await asyncio.get_running_loop().run_in_executor(self._thread, self._clear_cache)
        except Exception as error:
            log.warning("clear_cache failed: %s", type(error).__name__)
        else:
            if not without_coroutine(cleared):
                log.warning("clear_cache failed: %s", must_be_plain("clear_cache"))

    def stop(self) -> None:
        """Cancel the call, where it runs on the loop: its results are no longer needed."""
        if self._call is not None:
            self._call.cancel()

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False)

    def _in_thread(self, items: list[T]) -> Sequence[R] | Awaitable[Sequence[R]]:
        self._thread_id = threading.get_ident()
        try:
            return self._function(items)
        except StopIteration as error:  # no future can carry it as a failure
            raise _failure(error) from error
        except Exception:
            raise
        except BaseException as error:  # sys.exit in a batch function must not end the loop
            raise _failure(error) from error
        finally:
            self._thread_id = None

    async def _on_the_loop(self, results: Awaitable[Sequence[R]]) -> Sequence[R]:
        self._call = asyncio.ensure_future(_survived(results))
        try:
            return await self._call
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise BatchFunctionError("the batch function was cancelled") from None
        finally:
            self._call = None
            if inspect.iscoroutine(results):
                results.close()  # cancelled before its first step, it was never awaited; else this does nothing


def is_async(function: Any) -> bool:
    """Whether a call of the function gives a coroutine: an async function, or an object with an async call."""
    call = getattr(function, "__call__", None)  # noqa: B004 - the method itself is wanted, of an object that has one
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def check_functions(**functions: Any) -> None:
    """Raise TypeError for a wrong function at construction, not at the first request. The batch function is needed, and
    alone may be async.
    """
    for name, function in functions.items():
        if not callable(function) and (function is not None or name == "process_batch"):
            without_coroutine(function)
            raise TypeError(f"{name} must be a function, not {type(function).__name__}")
        if name != "process_batch" and is_async(function):
            raise must_be_plain(name)


def failure_of(result: object) -> Exception | None:
    """The failure of an item that has an exception in the place of its result; None for a result."""
    if isinstance(result, Exception) and not isinstance(result, StopIteration):
        return result
    return _failure(result) if isinstance(result, BaseException) else None  # no future can carry it as it is


def out_of_memory(error: Exception) -> bool:
    """Whether the memory was too small for a batch: Python's own error, or torch's, which is known by its name."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


async def _survived(results: Awaitable[Sequence[R]]) -> Sequence[R]:
    """The results; an error that would end the loop becomes a plain failure. Ctrl-C is the program's."""
    try:
        return await results
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        raise _failure(error) from error


def _failure(error: BaseException) -> BatchFunctionError:
    return BatchFunctionError(f"the batch function raised {error!r}")


def _checked(results: Sequence[R], asked: int) -> list[R]:
    """The results, if each item has one and they have an order. A tensor or an array will do, a table will not."""
    unordered = isinstance(results, str | bytes | Mapping | Set) or hasattr(results, "columns")
    if unordered or not hasattr(results, "__len__"):
        raise BatchFunctionError(f"the batch function returned {type(results).__name__}, not a list")
    try:
        listed = list(results)
    except Exception as error:
        kind = type(results).__name__
        raise BatchFunctionError(f"the batch function returned a {kind} that cannot be read: {error!r}") from error
    if len(listed) != asked:
        raise BatchFunctionError(f"the batch function returned {len(listed)} results for {asked} items")
    return listed
