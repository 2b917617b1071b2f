"""Background tasks of one server, by name.

One task of a name at a time. The event loop keeps only weak references to its tasks; this object keeps strong ones.

Loops of all periods wake up at common times: most of what an idle server costs is that a process wakes up with cold
caches.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from math import floor
from typing import Any

log = logging.getLogger(__name__)

#: The shortest period of a loop that runs as long as the server; the others are multiples of it.
TURN_S = 0.2
_EARLY = 1e-3  # of a period: a timer may come so much early, which is no turn of its own


def next_turn_s(every_s: float) -> float:
    """The next multiple of this period on the clock of the running event loop."""
    return every_s * (floor(asyncio.get_running_loop().time() / every_s + _EARLY) + 1)


async def sleep_until_turn(every_s: float) -> None:
    """Sleep until the next multiple of this period."""
    await asyncio.sleep(next_turn_s(every_s) - asyncio.get_running_loop().time())


async def report_every(every_s: float, report: Callable[[], None]) -> None:
    """Call this now and at every multiple of the period, until cancelled."""
    while True:
        report()
        await sleep_until_turn(every_s)


class BackgroundTasks:
    """The background tasks of one server. Call it on the event loop's thread only."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._tasks

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Start a task, in place of the one that runs under this name."""
        self.stop(name)
        task = self._tasks[name] = asyncio.get_running_loop().create_task(work, name=f"headway {name}")
        task.add_done_callback(lambda done: self._ended(name, done))

    def stop(self, name: str) -> None:
        """Cancel the task, if it runs."""
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()

    def stop_all(self) -> None:
        """Cancel everything."""
        for name in list(self._tasks):
            self.stop(name)

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(name) is task:
            del self._tasks[name]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background task %s ended with %s", name, type(error).__name__, exc_info=error)
