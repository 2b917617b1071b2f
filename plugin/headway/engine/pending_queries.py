"""What has the engine been asked that it has not answered yet?

The client of an engine that dies does not tell whoever waits for an answer: they would wait for ever, and keep the
server from ending. So every question of ours goes through here, and ends with the engine, or when its time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from headway.errors import NoEngineError

T = TypeVar("T")


class PendingQueries:
    """The open queries to one engine. Call it on the event loop's thread only."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[Any]] = set()

    async def ask(self, question: Coroutine[Any, Any, T], within_s: float | None = None) -> T:
        """The answer. Raises what the question raises, NoEngineError when the engine dies first, or TimeoutError."""
        asked = asyncio.get_running_loop().create_task(question)
        self._open.add(asked)
        try:
            await asyncio.wait({asked}, timeout=within_s)
            if asked.cancelled():
                raise NoEngineError("the engine died before it answered")
            if not asked.done():
                raise TimeoutError(f"no answer within {within_s:g} s")
            return asked.result()
        finally:
            self._open.discard(asked)
            asked.cancel()

    def end(self) -> None:
        """The engine is dead: it answers none of them."""
        for asked in self._open:
            asked.cancel()


class Confirmation:
    """Waits until the engine has processed everything that it was sent before.

    ``ask`` is a question that the engine answers in its turn. Callers that come while one is open share the next one:
    the answer to a question that was asked before them proves nothing to them.
    """

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._ask = ask
        self._open: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def wait(self) -> None:
        """Return once a question that begins after this call is answered, or cannot be."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._after(self._open))
        await asyncio.shield(self._next)

    async def _after(self, earlier: asyncio.Task[None] | None) -> None:
        if earlier is not None:
            await asyncio.wait({earlier})
        self._open, self._next = self._next, None
        try:
            await self._ask()
        finally:
            self._open = None
