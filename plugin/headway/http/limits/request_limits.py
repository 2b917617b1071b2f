"""The outermost middleware: enforces the bounds of a request, before it is read and while its body comes.

Pure ASGI, around vLLM's authentication, its metrics and every other middleware, for each method and each path. Header
fields and request target are counted at once. Under uvicorn the protocol has counted the head already while it came in
(``api_server/protocol``); here the sum is exact, and holds for any server.

The body is counted, timed, and held within the bound of all bodies on its way to the application. Only received
bytes are counted, never a declared length, so no client can block others by declaring one. A JSON body is read whole
and passed on in one piece, any other as it comes; both stay counted until the request is queued (the queue has bounds
of its own) or over. A body that is too large, too slow or exceeds the bound of all bodies is refused here, and the
application gets a disconnect.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.api_errors import BadRequest, answer, error_body
from headway.http.limits.bounds import MAX_TARGET_BYTES, Bounds
from headway.http.limits.json_shape import JsonShape
from headway.openai.routes import route_of

#: Where the admission middleware finds the body of its request, to release it when the request is queued.
BODY: Final = "headway.body"

_FIELD_BYTES = len(": \r\n")
_WEBSOCKET_TOO_LARGE = 1009
_DISCONNECT: Message = {"type": "http.disconnect"}
_RETRY_AFTER_S = 2
_NO_ROOM_HEADERS = (
    (b"retry-after", str(_RETRY_AFTER_S).encode()),
    (b"x-headway-reason", b"bodies_full"),
)


def is_json(content_type: str | None) -> bool:
    """Whether a body of this type is read as JSON, like a body without a type."""
    return content_type is None or "json" in content_type.partition(";")[0].lower()


@dataclass(slots=True)
class Budget:
    """The bytes of all bodies that have come and are not queued yet. Touched from the event loop only."""

    max_bytes: int
    held_bytes: int = 0

    def take(self, size_bytes: int) -> bool:
        """Reserve this many bytes, or none where they do not fit."""
        fits = self.held_bytes + size_bytes <= self.max_bytes
        self.held_bytes += size_bytes if fits else 0
        return fits

    def give_back(self, size_bytes: int) -> None:
        """Free this many bytes."""
        self.held_bytes -= size_bytes


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """ASGI middleware. ``budget`` is shared by all requests of the server."""

    app: ASGIApp
    bounds: Bounds
    budget: Budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request whose head is within the bounds."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        try:
            _check_head(scope, self.bounds)
        except BadRequest as bad:
            await _refuse(scope, send, bad)
            return
        if scope["type"] == "websocket":
            await self.app(scope, receive, send)
        else:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = Body(scope, receive, send, self.bounds, self.budget)
        try:
            for name, value in scope["headers"]:
                if name == b"content-length":
                    body.declared(value.decode("latin-1"))
        except BadRequest as bad:
            await body.refuse(bad)
            return
        scope[BODY] = body
        try:
            await self.app(scope, body.receive, body.send)
        except Exception:
            if not body.refused:  # else the application failed because its client was disconnected
                raise
        finally:
            body.release()


class Body:
    """The layer between the server's ``receive`` and ``send`` of one request and the application's."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, bounds: Bounds, budget: Budget) -> None:
        self._path: str = scope["path"]
        self._receive = receive
        self._send = send
        self._bounds = bounds
        self._budget = budget
        self._max_bytes = bounds.body_bytes(route_of(scope))
        self._left_s = bounds.body_timeout_s
        self._shape = JsonShape() if is_json(Headers(scope=scope).get("content-type")) else None
        self._parts = bytearray()
        self._size_bytes = self._held_bytes = 0
        self._complete = self._released = self._answering = False
        self.refused = False

    def declared(self, length: str) -> None:
        """Check the declared length. Raises BadRequest; a length that is no number is ignored."""
        digits = length.strip().lstrip("0")
        if digits.isdecimal() and (len(digits) > len(str(self._max_bytes)) or int(digits) > self._max_bytes):
            raise self._too_large()

    async def receive(self) -> Message:
        """The application's ``receive``."""
        if self.refused:
            return _DISCONNECT
        if self._complete:
            return await self._receive()
        try:
            return await (self._next() if self._shape is None else self._whole(self._shape))
        except BadRequest as bad:
            await self.refuse(bad)
            return _DISCONNECT

    async def send(self, message: Message) -> None:
        """The application's ``send``; dropped after a refusal."""
        if not self.refused:
            self._answering = True
            await self._send(message)

    async def refuse(self, bad: BadRequest) -> None:
        """Answer in place of the application, if it has not begun to answer."""
        self.refused = True
        self.release()
        if not self._answering:
            body = error_body(self._path, bad.status, bad.message, bad.code)
            await answer(self._send, bad.status, body, bad.headers)

    def release(self) -> None:
        """Stop counting this body, and free what was counted. Later calls do nothing."""
        self._released = True
        self._budget.give_back(self._held_bytes)
        self._held_bytes = 0
        self._parts = bytearray()

    async def _whole(self, shape: JsonShape) -> Message:
        while True:
            message = await self._next()
            if message["type"] != "http.request":
                return message
            part = message.get("body", b"")
            shape.feed(part)
            self._parts += part
            if self._complete:
                shape.close()
                body, self._parts = bytes(self._parts), bytearray()
                return {"type": "http.request", "body": body, "more_body": False}

    async def _next(self) -> Message:
        """The next message of the client, in time and counted."""
        message = await self._in_time()
        if message["type"] != "http.request":
            self._complete = True
            self.release()
            return message
        size_bytes = len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        self._count(size_bytes)
        earned_s = size_bytes / self._bounds.min_body_bytes_per_s
        self._left_s = min(self._bounds.body_timeout_s, self._left_s + earned_s)
        return message

    async def _in_time(self) -> Message:
        """Wait for the client within its time, which runs only while the application reads."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            async with asyncio.timeout(self._left_s) as limit:
                return await self._receive()
        except TimeoutError:
            if not limit.expired():
                raise
            raise self._too_slow() from None
        finally:
            self._left_s -= loop.time() - began_s

    def _count(self, size_bytes: int) -> None:
        self._size_bytes += size_bytes
        if self._size_bytes > self._max_bytes:
            raise self._too_large()
        if self._released:
            return
        if not self._budget.take(size_bytes):
            raise self._bodies_full()
        self._held_bytes += size_bytes

    def _too_large(self) -> BadRequest:
        text = f"The request body is larger than the {self._max_bytes} bytes this server accepts on this path."
        return BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text, "body_too_large")

    def _too_slow(self) -> BadRequest:
        rate = self._bounds.min_body_bytes_per_s
        text = f"The request body came too slowly: {rate} bytes per second are needed."
        return BadRequest(HTTPStatus.REQUEST_TIMEOUT, text, "body_too_slow", ((b"connection", b"close"),))

    def _bodies_full(self) -> BadRequest:
        text = f"Too many request bodies are being received. Try again in {_RETRY_AFTER_S} s. (bodies_full)"
        return BadRequest(HTTPStatus.SERVICE_UNAVAILABLE, text, "bodies_full", _NO_ROOM_HEADERS)


async def whole_body(receive: Receive) -> Message:
    """The body in one message, or the disconnect that came before its end."""
    parts = []
    while (message := await receive())["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return {"type": "http.request", "body": b"".join(parts), "more_body": False}
    return message


def _check_head(scope: Scope, bounds: Bounds) -> None:
    """Raises BadRequest."""
    target_bytes = len(scope.get("raw_path") or scope["path"]) + len(scope.get("query_string", b""))
    if target_bytes > MAX_TARGET_BYTES:
        text = f"The request target is longer than the {MAX_TARGET_BYTES} bytes this server accepts."
        raise BadRequest(HTTPStatus.REQUEST_URI_TOO_LONG, text, "target_too_long")
    fields = scope["headers"]
    most_bytes, most_fields = bounds.max_header_bytes, bounds.max_header_fields
    if len(fields) > most_fields:
        text = f"The request has more than the {most_fields} header fields this server accepts."
        raise BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text, "headers_too_large")
    if sum(len(name) + len(value) + _FIELD_BYTES for name, value in fields) > most_bytes:
        text = f"The request headers are larger than the {most_bytes} bytes this server accepts."
        raise BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text, "headers_too_large")


async def _refuse(scope: Scope, send: Send, bad: BadRequest) -> None:
    """Answer before the application is asked; a websocket server turns the close before the accept into a 403."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _WEBSOCKET_TOO_LARGE, "reason": bad.code})
    else:
        body = error_body(scope["path"][:MAX_TARGET_BYTES], bad.status, bad.message, bad.code)
        await answer(send, bad.status, body, bad.headers)
