"""A call of the router: its present step, which can be interrupted from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

import aiohttp

from headway.errors import Refused
from headway_policies import Reason

T = TypeVar("T")


class InstanceLostError(Exception):
    """The instance gave no answer, or broke off; ``sent``: it may have begun to work on the request."""

    def __init__(self, name: str, *, sent: bool) -> None:
        super().__init__(f"instance {name} was lost")
        self.sent = sent


class NoInstanceError(Exception):
    """No instance takes the request; ``refused`` is the answer to its client. Instances are asked every second."""

    def __init__(self, reason: Reason = Reason.NOT_READY, retry_after_s: int = 1) -> None:
        self.refused = Refused(reason, retry_after_s)


class EngineGoneError(Exception):
    """The server that this process has started has ended, and with it all its requests."""


class AbortedError(Exception):
    """The call was aborted where it was made."""


class Call:
    """A call that runs one step after the other. ``begun``: output of it was handed on, so it cannot be tried again.

    ``let_go`` are called where the call is stopped between two steps, while its client takes what it was sent: its
    seats and connections are given back at once, however long the client takes.
    """

    def __init__(self) -> None:
        self.begun = False
        self._step: asyncio.Task[Any] | None = None
        self._reading: aiohttp.StreamReader | None = None
        self._stopped: Exception | None = None
        self.let_go: list[Callable[[], None]] = []

    async def step(self, work: Coroutine[Any, Any, T], undo: Callable[[T], None] | None = None) -> T:
        """The result of this step. Raises what the step raises, or what ``stop`` was given.

        A result that came too late to be taken is given to ``undo``.
        """
        if self._stopped is not None:
            work.close()
            raise self._stopped
        step, taken = asyncio.ensure_future(work), False
        self._step = step
        try:
            await asyncio.wait({step})
            if self._stopped is not None:
                raise self._stopped
            taken = True
            return step.result()
        finally:
            self._step = None
            if not taken:
                step.cancel()
                step.add_done_callback(partial(_drop, undo))

    async def read(self, content: aiohttp.StreamReader) -> bytes:
        """Read the next part of a response, empty at its end. Raises its error, or that given to ``stop``.

        Each token is a part, so there is no task for it.
        """
        if self._stopped is None:
            self._reading = content
            try:
                part = await content.readany()
            finally:
                self._reading = None
        if self._stopped is not None:
            raise self._stopped
        return part

    def stop(self, why: Exception) -> None:
        """Interrupt the present step, and every later one."""
        if self._stopped is not None:
            return
        self._stopped = why
        if self._step is not None:
            self._step.cancel()
        elif self._reading is not None:
            self._reading.set_exception(why)
        else:
            for let_go in self.let_go:
                let_go()

    def again(self) -> None:
        """Go on with another instance, because the present one was lost. An abort stays an abort."""
        if not isinstance(self._stopped, AbortedError):
            self._stopped = None


def _drop(undo: Callable[[Any], None] | None, step: asyncio.Task[Any]) -> None:
    """Undo the result of a step that no caller takes."""
    if not step.cancelled() and step.exception() is None and undo is not None:
        undo(step.result())
