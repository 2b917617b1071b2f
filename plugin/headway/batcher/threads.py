"""A batcher for programs with threads.

A background thread runs an event loop with the batcher on it; all methods are calls into that loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait
from types import TracebackType
from typing import Generic, Self

from headway.batcher.arguments import without_coroutine
from headway.batcher.batcher import Batcher
from headway.batcher.function import R, T
from headway.batcher.stats import BatcherStats
from headway.errors import refusal
from headway_policies import Reason


class SyncBatcher(Generic[T, R]):
    """A batcher for threads; any of them may call every method. A stopped batcher cannot be started again.

    Raises TypeError for anything but a ``Batcher``.
    """

    def __init__(self, batcher: Batcher[T, R]) -> None:
        if not isinstance(batcher, Batcher):
            kind = type(batcher).__name__
            without_coroutine(batcher)
            raise TypeError(f"SyncBatcher takes a Batcher, as in SyncBatcher(Batcher(process_batch)), not {kind}")
        self._batcher = batcher
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopping = asyncio.Event()
        self._stopped = False

    def start(self) -> Self:
        """Start the thread. Raises RuntimeError the second time."""
        with self._lock:
            if self._stopped or self._thread is not None:
                raise RuntimeError("a SyncBatcher can be started once")
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run, args=[self._loop], name="headway-batcher", daemon=True)
            self._thread.start()
        return self

    def submit(
        self, item: T, priority: int | str | None = None, timeout: float | None = None, tokens: int | None = None
    ) -> Future[R]:
        """Hand in one item, with the terms of ``Batcher.submit``; the future has its result, or its error.

        Raises Rejected once the batcher is stopped, and RuntimeError before it is started.
        """
        with self._lock:
            if self._stopped:
                raise refusal(Reason.DRAINING, 1)
            if self._loop is None:
                raise RuntimeError("the batcher is not started")
            return asyncio.run_coroutine_threadsafe(
                self._batcher.submit(item, priority=priority, timeout=timeout, tokens=tokens), self._loop
            )

    def warm_up(self, items: Sequence[T]) -> None:
        """Run the function before the first requests, as ``Batcher.warm_up``. Ends when that has ended.

        Raises RuntimeError inside the batch function, which it would wait for.
        """
        if self._batcher.runs_here:
            raise RuntimeError("a batch function cannot warm up the batcher it runs in")
        with self._lock:
            if self._stopped or self._loop is None:
                raise RuntimeError("the batcher is not running")
            warming = asyncio.run_coroutine_threadsafe(self._batcher.warm_up(items), self._loop)
        warming.result()

    def wait_for_result(self, request: Future[R], timeout: float | None = 30.0) -> R:
        """The result of a request. Raises its error, or TimeoutError after ``timeout`` s: the request is withdrawn."""
        done, _ = wait([request], None if timeout is None else min(timeout, threading.TIMEOUT_MAX))
        if not done and request.cancel():
            raise TimeoutError(f"no result within {timeout} s; the request was withdrawn")
        return request.result()

    def get_stats(self) -> BatcherStats:
        """The figures so far."""
        return self._batcher.stats()

    def stop(self) -> None:
        """Refuse new requests, finish the others, end the thread. A second call only waits for that.

        Raises RuntimeError inside the batch function, which it would wait for.
        """
        if self._batcher.runs_here:
            raise RuntimeError("a batch function cannot stop the batcher it runs in")
        with self._lock:
            if self._loop is not None and not self._stopped:
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._stopped = True
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        """Keep the loop running until the last submitter has its result."""
        await self._stopping.wait()
        await asyncio.sleep(0)  # where this thread begins after the stop, the submitters begin first
        await self._batcher.drain()
        submitters = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*submitters, return_exceptions=True)


__all__ = ["SyncBatcher"]
