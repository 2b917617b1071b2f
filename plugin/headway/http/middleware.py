"""The middleware: pure ASGI, around every POST that may reach the engine.

    1. identify   class, tenant, time-outs and size from headers and body, which RequestLimits has bounded
    2. hand over  the RequestContext travels in a context variable to the engine calls of this request
    3. hold       the response start waits until the first token or a refusal, so that a refusal is a true
                  429/503/504 with Retry-After, for a stream as well
    4. settle     once the last byte is out, or the client or the handler gave up

A request that never asks for a ticket passes untouched. A refusal after the first byte becomes one error event. Whoever
does not take even that within a second, or whose handler is stuck in a dead engine, is cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.admission import REQUEST_CONTEXT, RequestContext
from headway.api_errors import BadRequest, answer, error_body, error_event, refusal_headers
from headway.fallback import FallbackController
from headway.http.fallback_route import FallbackRoute
from headway.http.request_info import identify
from headway.http.request_limits import BODY
from headway_policies import Ending, Preset

_LAST_WORDS_S = 1.0


@dataclass(frozen=True, slots=True)
class AdmissionMiddleware:
    """ASGI middleware. ``preset`` gives the preset in force, ``fallback_controller`` knows of another model."""

    app: ASGIApp
    preset: Callable[[], Preset]
    queue_full_status: HTTPStatus = HTTPStatus.TOO_MANY_REQUESTS
    fallback_controller: Callable[[], FallbackController] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in."""
        if scope["type"] != "http" or scope["method"] != "POST" or _never_generates(scope["path"]):
            await self.app(scope, receive, send)
            return
        headers, client = _headers(scope), receive
        try:
            message = await _whole(receive) if _is_json(headers) else None
            body = message.get("body") if message else None
            context = identify(headers, scope["path"], body, self.preset())
        except BadRequest as bad:
            await answer(send, bad.status, error_body(scope["path"], bad.status, bad.message, bad.code))
            return
        if BODY in scope:
            context.on_entered = scope[BODY].release
        way_out = self._way_out(context, scope, headers, body, client, send)
        receive, message, body = _replay(message, receive), None, None  # whoever reads it is the only one to hold it
        if way_out is None or not await way_out.take():
            await self._serve(context, scope, receive, send, way_out)

    def _way_out(
        self,
        context: RequestContext,
        scope: Scope,
        headers: Mapping[str, str],
        body: bytes | None,
        receive: Receive,
        send: Send,
    ) -> FallbackRoute | None:
        """To another model, where one is known."""
        fallback_controller = None if self.fallback_controller is None else self.fallback_controller()
        if fallback_controller is None or fallback_controller.upstream is None:
            return None
        return FallbackRoute(fallback_controller, context, scope["path"], headers, body, receive, send)

    async def _serve(
        self, context: RequestContext, scope: Scope, receive: Receive, send: Send, way_out: FallbackRoute | None
    ) -> None:
        hold = _Hold(context, scope["path"], send, self.queue_full_status, way_out)
        token = REQUEST_CONTEXT.set(context)
        try:
            async with asyncio.timeout(None) as cap:
                context.on_given_up = lambda: hold.limit(cap)
                await self.app(scope, hold.watched(receive), hold.send)
                await hold.finish()
        except Exception:
            hold.crashed = True
            if not (cap.expired() and hold.flowing) and not await hold.finish():
                raise
        finally:
            REQUEST_CONTEXT.reset(token)
            if context.permit is not None:
                context.permit.leave(hold.ending())


class _Hold:
    """Holds a response back until it is known to be one."""

    def __init__(
        self,
        context: RequestContext,
        path: str,
        send: Send,
        queue_full_status: HTTPStatus,
        way_out: FallbackRoute | None = None,
    ) -> None:
        self._trip = context
        self._path = path
        self._send = send
        self._queue_full_status = queue_full_status
        self._way_out = way_out
        self._held: list[Message] = []
        self._status = 0
        self._events = False
        self.flowing = False
        self._closed = False
        self._served = False
        self._gone = False
        self.crashed = False

    def watched(self, receive: Receive) -> Receive:
        """The application's ``receive``, overheard: a client that leaves before the end is remembered as gone."""

        async def watching() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect" and not self._closed:
                self._gone = self._closed = True
            return message

        return watching

    async def send(self, message: Message) -> None:
        """Take the next message of the response from the application."""
        if self._closed:
            return
        if self._refusable():
            await self._refuse()
            return
        start = message["type"] == "http.response.start"
        if start:
            self._status = message["status"]
            self._events = Headers(raw=message["headers"]).get("content-type", "").startswith("text/event-stream")
        self._held.append(message)
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if self.flowing or last or (self._decided() and not start):
            await self._flow()
        if last:
            self._served = self._closed = True

    async def finish(self) -> bool:
        """The application is done: answer a refusal it did not answer itself. True when it was a refusal."""
        if self._refusable() and not self._closed:
            await self._refuse()
        return self._trip.refused is not None and self._closed

    def limit(self, cap: asyncio.Timeout) -> None:
        """It was given up: it has a moment for its last words. A whole answer under way is not spoilt."""
        if self._events or not self.flowing:
            cap.reschedule(asyncio.get_running_loop().time() + _LAST_WORDS_S)

    def ending(self) -> Ending:
        """How the request ended, as far as this side of it saw."""
        context = self._trip
        if self._gone:
            return Ending.CANCELLED
        if not self._served:
            return Ending.FAILED if self.crashed or context.calls_failed else Ending.CANCELLED
        if not context.calls_failed and self._status < HTTPStatus.BAD_REQUEST:
            return Ending.COMPLETED
        client_error = HTTPStatus.BAD_REQUEST <= self._status < HTTPStatus.INTERNAL_SERVER_ERROR
        return Ending.INVALID if client_error else Ending.FAILED

    def _refusable(self) -> bool:
        """Whether there is a refusal and a place for it: before the first byte, or as an event of an event stream."""
        return self._trip.refused is not None and (self._events or not self.flowing)

    def _decided(self) -> bool:
        """Whether the status can no longer change: no ticket was asked for, or its first token is here."""
        permit = self._trip.permit
        return permit is None or permit.token_s is not None

    async def _flow(self) -> None:
        held, self._held, self.flowing = self._held, [], True
        for message in held:
            if message["type"] == "http.response.start":
                self._sign(message)
            await self._send(message)

    def _sign(self, start: Message) -> None:
        permit = self._trip.permit
        if permit is None or start["status"] >= HTTPStatus.BAD_REQUEST:
            return
        headers = MutableHeaders(scope=start)
        headers["x-headway-class"] = permit.ticket.class_name
        headers["x-headway-queue-ms"] = str(round(permit.wait_s * 1000))
        headers["x-headway-preset"] = permit.preset_name
        if permit.degradations:
            headers["x-headway-degraded"] = permit.degradations

    async def _refuse(self) -> None:
        refused = self._trip.refused
        assert refused is not None
        self._closed = True
        if not self.flowing and self._way_out is not None and await self._way_out.take():
            return
        status = refused.status
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            status = self._queue_full_status
        if self.flowing:
            event = error_event(self._path, status, str(refused), refused.reason)
            await self._send({"type": "http.response.body", "body": event, "more_body": False})
            return
        body = error_body(self._path, status, str(refused), refused.reason)
        await answer(self._send, status, body, refusal_headers(refused, self._trip.class_name))


def _headers(scope: Scope) -> dict[str, str]:
    """All headers, decoded once; of a header that is sent twice the first counts."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}


def _never_generates(path: str) -> bool:
    """Routes that ask for no seat: ours, and counting, which vLLM checks like a generation all the same."""
    return path.startswith("/headway/") or path.endswith("/count_tokens")


def _is_json(headers: Mapping[str, str]) -> bool:
    return "json" in headers.get("content-type", "json").lower()


async def _whole(receive: Receive) -> Message:
    """The body in one message, or the disconnect that came in its place."""
    parts = []
    while (message := await receive())["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return {"type": "http.request", "body": b"".join(parts), "more_body": False}
    return message


def _replay(message: Message | None, receive: Receive) -> Receive:
    """A ``receive`` that gives this message first, and does not keep it."""
    messages = [] if message is None else [message]

    async def replaying() -> Message:
        return messages.pop() if messages else await receive()

    return replaying
