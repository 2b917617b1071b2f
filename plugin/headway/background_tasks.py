"""Background tasks of one server, by name.

One task of a name at a time. The event loop keeps only weak references to its tasks; this object keeps strong ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger(__name__)


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
        """Cancel it, if it runs."""
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
