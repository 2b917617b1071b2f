"""The guard of one API server of a vLLM that ``headway serve`` has started behind its queue (``headway.own_server``).

The queue is in the process that forwards, so this process has no gate. The endpoint plugin adds here instead:

    a fast end      this process ends with the engine, so that the queue sees a broken connection and not an error
    the class       of a request is the engine's priority, as the queue says it in a header
    checks          what the engine must not have: a grammar that takes too much to compile is refused here

Only that queue can connect: the socket is in a folder of its own.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextvars import ContextVar
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.vllm_adapter.engine_adapter import CallBounds, VllmAdapter
from headway.vllm_adapter.own_server_checks import CALL, Call, DeferredStream, checked

PRIORITY_HEADER: Final = "x-headway-priority"
TENANT_HEADER: Final = "x-headway-tenant"

_ENGINE_DIED: Final = 70
_PRIORITY: ContextVar[int | None] = ContextVar("headway_own_server_priority", default=None)


class OwnServerGuard:
    """The middleware and the checks of one API server; ``serve`` says which engine it has."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self._engine: Any = None
        app.add_middleware(EndWithEngine, dead=self._dead)

    def serve(self, engine: Any, bounds: CallBounds) -> None:
        """Check each call to this engine client, within these bounds, from now on."""
        self._engine = engine
        engine.generate = checked(_with_priority(engine.generate), VllmAdapter(bounds))
        engine.encode = _with_priority(engine.encode)

    def _dead(self) -> bool:
        return self._engine is not None and bool(self._engine.errored)


class EndWithEngine:
    """Ends this process in place of an answer of an engine that is dead.

    The queue tries a request again whose connection broke, once there is another engine; an error from here would be
    passed on to the client.
    """

    def __init__(self, app: ASGIApp, *, dead: Callable[[], bool], end: Callable[[int], object] = os._exit) -> None:
        self._app = app
        self._dead = dead
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and its answer while the engine lives."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])

        async def answer(message: Message) -> None:
            if self._dead():
                self._end(_ENGINE_DIED)
            await send(message)

        said = headers.get(PRIORITY_HEADER.encode(), b"")
        _PRIORITY.set(int(said) if said.isdigit() and len(said) <= 6 else None)
        call = Call(headers.get(TENANT_HEADER.encode(), b"").decode("latin-1"))
        CALL.set(call)
        if scope["type"] != "http":
            await self._app(scope, receive, answer)
            return
        deferred = DeferredStream(call, scope["path"], answer)
        try:
            await self._app(scope, receive, deferred.send)
        except Exception:
            if not await deferred.finish():
                raise


def _with_priority(run: Callable[..., AsyncGenerator[Any, None]]) -> Callable[..., AsyncGenerator[Any, None]]:
    """The same call with the priority that the queue gave the request, whatever priority its client asked for."""

    def ranked(*arguments: Any, **options: Any) -> AsyncGenerator[Any, None]:
        given = _PRIORITY.get()
        if given is not None:
            options["priority"] = given
        return run(*arguments, **options)

    return ranked
