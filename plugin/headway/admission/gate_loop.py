"""The gate's event loop, for callers in other threads, and the tasks that run apart from their callers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class GateLoop:
    """The event loop of a gate, ``own``, None until the first request. ``failed`` is called with the error of a task
    that failed.
    """

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self.own: asyncio.AbstractEventLoop | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        self._failed = failed

    def call(self, action: Callable[[], None]) -> bool:
        """Run now when this is the gate's loop, else as soon as the loop gets to it; never once it is closed.

        True when this is another thread, and the loop is still running.
        """
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is not None and self.own in (None, here):
            action()
        elif self.own is not None and not self.own.is_closed():
            self.own.call_soon_threadsafe(action)
            return self.own.is_running()
        return False

    def run_apart(self, work: Coroutine[Any, Any, None]) -> None:
        """Run this in a task of its own: the caller may be cancelled again and again. Call it on the loop."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._failed(error)
