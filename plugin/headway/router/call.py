"""One call of the router: its present step, which can be interrupted from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class InstanceLostError(Exception):
    """The instance gave no answer, or broke off: ``sent`` says whether it may have begun to work on the request."""

    def __init__(self, name: str, *, sent: bool) -> None:
        super().__init__(f"instance {name} was lost")
        self.sent = sent


class AbortedError(Exception):
    """The call was aborted by the one who made it."""


class Call:
    """Runs one step after the other. ``begun`` says that output of it was handed on: it cannot be tried again."""

    def __init__(self) -> None:
        self.begun = False
        self._step: asyncio.Task[Any] | None = None
        self._stopped: Exception | None = None

    async def step(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of this step. Raises what it raises, or what ``stop`` was given."""
        if self._stopped is not None:
            work.close()
            raise self._stopped
        step = self._step = asyncio.ensure_future(work)
        try:
            await asyncio.wait({step})
        finally:
            self._step = None
            if not step.done():
                step.cancel()
        if self._stopped is not None:
            if not step.cancelled():
                step.exception()  # it is of no interest any more
            raise self._stopped
        result: T = step.result()
        return result

    def stop(self, why: Exception) -> None:
        """Interrupt the present step, and every one that follows."""
        if self._stopped is None:
            self._stopped = why
            if self._step is not None:
                self._step.cancel()

    def again(self) -> None:
        """Its instance was lost: go on, with another one. An abort stays one."""
        if not isinstance(self._stopped, AbortedError):
            self._stopped = None
