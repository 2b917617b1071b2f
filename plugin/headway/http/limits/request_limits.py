"""The outermost middleware: refuses a request that is too large before it is read.

Pure ASGI, around vLLM's authentication, its metrics and every other middleware, for each method and each path. Header
fields and request target are counted at once; the body is counted as it is read (``body``). Under uvicorn the
protocol has counted the head already while it came in (``api_server/protocol``); here the sum is exact, and holds for
any server.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from headway.api_errors import BadRequest, answer, error_body
from headway.http.limits.body import Body, Budget
from headway.http.limits.bounds import MAX_TARGET_BYTES, Bounds

#: Where the admission middleware finds the body of its request, to release it when the request is queued.
BODY: Final = "headway.body"

_FIELD_BYTES = len(": \r\n")
_WEBSOCKET_TOO_LARGE = 1009


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
