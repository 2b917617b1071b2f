"""Another engine from a program's own factory, in the place of an engine that died or is recycled.

The program and its callers have the engine object itself, so it stays: it takes over the state of the new engine, and
both objects share one ``__dict__`` from then on (the new engine may have started tasks of its own that go on using it).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

from headway_policies import Cause

log = logging.getLogger(__name__)

#: Makes another engine of the same class. A plain function runs in a thread, a coroutine function on the loop.
EngineFactory = Callable[[], Any]


class FactoryReplacer:
    """The replacer of a program's engine (see ``headway.supervision.supervisor.Replacer``).

    Make it before the engine becomes a policy client. ``replaced`` is called with each new engine in place. Raises
    TypeError where the engine's state cannot be exchanged, or the factory is not callable.
    """

    def __init__(self, engine: Any, factory: EngineFactory) -> None:
        if not callable(factory):
            raise TypeError(f"engine_factory= takes a function that makes an engine, not {type(factory).__name__}")
        if not hasattr(engine, "__dict__"):
            raise TypeError(f"engine_factory=: {type(engine).__name__} has __slots__, so its state cannot be exchanged")
        self._engine = engine
        self._class = type(engine)
        self._factory = factory
        self._kept: Any = None
        self._ended = False
        self.replaced: Callable[[], object] = lambda: None

    def cause(self) -> Cause:
        """A crash: nothing more is known of an engine in general."""
        return Cause.CRASH

    def kill(self) -> None:
        """Call the engine's ``shutdown``, where it exists. A new engine that is still being made is not ended."""
        self._ended = True
        shutdown = getattr(self._class, "shutdown", None)
        if shutdown is not None:
            shutdown(self._engine)

    async def start(self) -> None:
        """Make another engine, and take over its state. Raises TypeError for an engine of another class.

        An engine that died by itself is shut down first: parts of it may be there still.
        """
        if not self._ended:
            try:
                self.kill()
            except Exception as error:
                log.warning("the engine that died could not be shut down: %s", type(error).__name__)
        new = await self._made()
        if type(new) is not self._class:
            _shut_down(new)
            raise TypeError(f"engine_factory= made a {type(new).__name__}, and a {self._class.__name__} is needed")
        vars(new)["headway"] = self._engine.headway
        self._engine.__dict__ = new.__dict__
        self._kept = new  # or its finalizer would shut the shared state down
        self._ended = False
        self.replaced()

    async def _made(self) -> Any:
        """The new engine of the factory. If no caller waits for it any more, it is shut down at once."""
        if inspect.iscoroutinefunction(self._factory):
            return await self._factory()
        making = asyncio.get_running_loop().run_in_executor(None, self._factory)
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(_shut_down_made)
            raise


def _shut_down_made(made: asyncio.Future[Any]) -> None:
    if not (made.cancelled() or made.exception()):
        _shut_down(made.result())


def _shut_down(engine: Any) -> None:
    """End an engine that is not needed."""
    if callable(shutdown := getattr(engine, "shutdown", None)):
        try:
            shutdown()
        except Exception as error:
            log.warning("an engine that is not needed could not be shut down: %s", type(error).__name__)
