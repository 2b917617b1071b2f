"""The pending queries to an engine, cancelled when the engine dies.

The client of a dead engine never answers: a query would wait for ever, and keep the server from ending. So every query
of Headway is sent from here, and ends with the engine or with its time-out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from headway.errors import NoEngineError

T = TypeVar("T")


class PendingQueries:
    """The pending queries to one engine. Call it on the event loop's thread only."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[Any]] = set()

    async def ask(self, query: Coroutine[Any, Any, T], within_s: float | None = None) -> T:
        """The answer to a query. Raises its error, NoEngineError when the engine dies first, or TimeoutError."""
        asked = asyncio.get_running_loop().create_task(query)
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
        """Cancel all queries: the engine is dead."""
        for asked in self._open:
            asked.cancel()


class Confirmation:
    """A wait until the engine has processed everything that was sent to it before.

    ``ask`` is a query that the engine answers in its turn. Callers that come while a query is pending share the next
    one: the answer to a query that was sent before a call proves nothing about that call.
    """

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._ask = ask
        self._open: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def wait(self) -> None:
        """Return once a query that begins after this call is answered, or cannot be answered."""
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
