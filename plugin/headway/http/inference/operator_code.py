"""A function of the operator's, called in a thread and with a time limit.

A thread cannot be ended from outside. A call over its limit is no longer waited for, and holds one of the few threads
until it returns; once it holds them all, later calls exceed their limit too. The threads do not keep the process alive.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import Final

from headway.errors import HeadwayError
from headway_policies.import_path import FAILURES, find

#: Calls that run at once.
MAX_THREADS: Final = 4
#: The longest message that is passed on to a client.
MAX_MESSAGE_CHARS: Final = 500


class CallFailedError(Exception):
    """The function raised an unexpected error, returned no message, or took too long."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of a call: a message of the function, a failure, or neither."""

    message: str | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    """A call, and the future that waits for its outcome in the event loop."""

    call: Callable[[], object]
    future: asyncio.Future[_Outcome]
    loop: asyncio.AbstractEventLoop

    def run(self) -> None:
        """Make the call, in a thread; nothing where its caller no longer waits."""
        if self.future.cancelled():
            return
        outcome = _outcome(self.call)
        with suppress(RuntimeError):  # the loop was closed meanwhile
            self.loop.call_soon_threadsafe(self._settle, outcome)

    def _settle(self, outcome: _Outcome) -> None:
        if not self.future.done():
            self.future.set_result(outcome)


class OperatorCode:
    """Runs the calls of one function."""

    def __init__(self, name: str, function: Callable[..., object], timeout_s: float) -> None:
        self.name = name
        self.function = function
        self._timeout_s = timeout_s
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._threads = 0

    async def complaint(self, call: Callable[[], object]) -> str | None:
        """The message that ``call`` returned or raised as a ValueError; None where it had none.

        Raises CallFailedError for any other error, another result, and a call that takes too long.
        """
        loop = asyncio.get_running_loop()
        job = _Job(call, loop.create_future(), loop)
        self._start_a_thread()
        self._jobs.put(job)
        try:
            async with asyncio.timeout(self._timeout_s):
                outcome = await job.future
        except TimeoutError:
            raise CallFailedError(f"no result within {self._timeout_s:g} s") from None
        if outcome.failure is not None:
            raise CallFailedError(outcome.failure)
        return outcome.message

    def _start_a_thread(self) -> None:
        if self._threads < MAX_THREADS:
            self._threads += 1
            Thread(target=self._work, name=f"headway-operator-code-{self._threads}", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._jobs.get().run()


def load_function(variable: str, path: str, timeout_s: float) -> OperatorCode:
    """The function at ``package.module:function``. Raises HeadwayError in one line that names the variable."""
    try:
        function = find(path, "function")
    except ValueError as error:
        raise HeadwayError(f"{variable}: {error}") from error
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise HeadwayError(f"{variable}: {path} is no function that is not async; define one")
    return OperatorCode(path, function, timeout_s)


def _outcome(call: Callable[[], object]) -> _Outcome:
    try:
        return _judged(call)
    except FAILURES as error:
        return _Outcome(failure=f"it raised {type(error).__name__}")


def _judged(call: Callable[[], object]) -> _Outcome:
    try:
        found = call()
    except ValueError as error:
        found = str(error)
    if found is None:
        return _Outcome()
    if not isinstance(found, str):
        return _Outcome(failure=f"the function returned {type(found).__name__}, not a message or None")
    return _Outcome(message=found[:MAX_MESSAGE_CHARS] or "refused by a check of this server")
