"""One of several API servers in front of one engine, all of them behind the desk of ``headway serve``.

The desk is in the process that forwards, so this one has no gate. What the endpoint plugin adds here instead:

    a key           every route wants that of the group, which only its processes know
    a fast end      this process ends with the engine, so that the desk sees a broken connection and not an error
    the class       of a request is the engine's priority, as the desk says it in a header
    checks          what the engine must not have: a grammar that takes too much to compile is refused here
    three routes    what the engine is, its answer to a ping, and the end of what a lost API server ran
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.vllm_adapter.engine_adapter import CallBounds, VllmAdapter, abort_client
from headway.vllm_adapter.front_end_checks import CALL, Call, HeldStream, checked
from headway.vllm_adapter.front_end_processes import ENGINE_DIED
from headway.vllm_adapter.start_checks import FRONT_END

log = logging.getLogger(__name__)

KEY: Final = "HEADWAY_INSTANCE_KEY"
FACTS_ROUTE: Final = "/headway/front-end"
PING_ROUTE: Final = "/headway/front-end/ping"
ABORT_ROUTE: Final = "/headway/front-end/abort"
PRIORITY_HEADER: Final = "x-headway-priority"
TENANT_HEADER: Final = "x-headway-tenant"

_PRIORITY: ContextVar[int | None] = ContextVar("headway_front_end_priority", default=None)
_MOST_CLIENTS: Final = 1024


def is_front_end(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process belongs to a group of API servers."""
    return environment.get(FRONT_END) == "1"


class FrontEnd:
    """What is added to one API server; ``serve`` says which engine it has."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self._engine: Any = None
        self._facts: dict[str, Any] = {}
        app.add_middleware(FrontEndGuard, key=os.environ[KEY], dead=self._dead)
        app.router.routes.insert(0, Route(FACTS_ROUTE, self._answer_facts))
        app.router.routes.insert(0, Route(PING_ROUTE, self._ping))
        app.router.routes.insert(0, Route(ABORT_ROUTE, self._abort, methods=["POST"]))

    def serve(self, engine: Any, bounds: CallBounds) -> None:
        """From now on it serves with this engine client, within these bounds."""
        self._engine = engine
        self._facts = engine_facts(engine)
        engine.generate = checked(_with_priority(engine.generate), VllmAdapter(bounds))
        engine.encode = _with_priority(engine.encode)

    def _dead(self) -> bool:
        return self._engine is not None and bool(self._engine.errored)

    async def _answer_facts(self, request: Request) -> Response:
        return JSONResponse(self._facts)

    async def _ping(self, request: Request) -> Response:
        """When the engine answers: what keeps it from running."""
        answer = await VllmAdapter().ping(self._engine)
        return JSONResponse({"holds": sorted(one.value for one in answer.holds)})

    async def _abort(self, request: Request) -> Response:
        """End the sequences of another API server, by its number: it is gone, and reads no output any more."""
        text = request.query_params.get("client", "")
        if not (text.isascii() and text.isdecimal() and int(text[:9]) < _MOST_CLIENTS):
            return PlainTextResponse("client: a number is needed", HTTPStatus.BAD_REQUEST)
        ended = await abort_client(self._engine, int(text))
        if ended:
            log.warning("sequences of API server %s that were aborted, since it has ended: %d", text, ended)
        return JSONResponse({"aborted": ended})


class FrontEndGuard:
    """Refuses a request without the key. Ends this process in place of an answer of an engine that is dead.

    A connection that breaks off is one that the desk tries again elsewhere, or when there is another engine; an error
    from here would be passed on to the client. The exit code says that it was the engine's end, and not its own.
    """

    def __init__(
        self, app: ASGIApp, *, key: str, dead: Callable[[], bool], end: Callable[[int], object] = os._exit
    ) -> None:
        self._app = app
        self._expected = f"Bearer {key}".encode()
        self._dead = dead
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if not secrets.compare_digest(headers.get(b"authorization", b""), self._expected):
            if scope["type"] == "http":
                await PlainTextResponse("", HTTPStatus.UNAUTHORIZED)(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if self._dead():
                self._end(ENGINE_DIED)
            await send(message)

        said = headers.get(PRIORITY_HEADER.encode(), b"")
        _PRIORITY.set(int(said) if said.isdigit() and len(said) <= 6 else None)
        call = Call(headers.get(TENANT_HEADER.encode(), b"").decode("latin-1"))
        CALL.set(call)
        if scope["type"] != "http":
            await self._app(scope, receive, answer)
            return
        held = HeldStream(call, scope["path"], answer)
        try:
            await self._app(scope, receive, held.send)
        except Exception:
            if not await held.finish():
                raise


def engine_facts(engine: Any) -> dict[str, Any]:
    """What the desk has to know of the engine."""
    adapter = VllmAdapter()
    settings = adapter.settings(engine)
    return {
        "seats": adapter.engine_seats(engine),
        "device": str(engine.vllm_config.device_config.device_type),
        "fingerprint": adapter.fingerprint(engine),
        "dtype": settings.dtype,
        "quantization": settings.quantization,
        "kv_cache_dtype": settings.kv_cache_dtype,
        "max_model_len": settings.max_model_len,
        "step_tokens": settings.step_tokens,
    }


def _with_priority(run: Callable[..., AsyncGenerator[Any, None]]) -> Callable[..., AsyncGenerator[Any, None]]:
    """The same call with the priority that the desk gave the request; what its client asked for does not count."""

    def ranked(*arguments: Any, **options: Any) -> AsyncGenerator[Any, None]:
        given = _PRIORITY.get()
        if given is not None:
            options["priority"] = given
        return run(*arguments, **options)

    return ranked
