"""The route guard: an ASGI middleware that closes every route it does not know, and asks for keys.

The guard stands inside the limits of a request and outside everything of vLLM, for HTTP and websockets. The guard reads
the path, the method and a few headers, and no body.

    1. route      the plain path is looked up in the table: 404 where it is not there
    2. method     405 where the route does not have it; a new method of a known path is closed as well
    3. identity   by the route's access (``access``): 401, 403 or 429
    4. pass       with the Identity in the scope; vLLM's own check of ``--api-key`` is given a key that it knows

A CORS preflight of an open or an inference route passes to vLLM's CORS middleware, which answers it. There is none for
the routes of operators: no page of another origin can use them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.api_errors import answer
from headway.http.access.access import Access, AccessRefused
from headway.http.access.identity import IDENTITY, NO_TENANT, SENDER, Identity, Sender
from headway.http.access.route_table import plain_path
from headway.openai.routes import WEBSOCKET, Route, RouteAccess

#: Why requests are refused: the keys of ``RouteGuard.refused``.
REASONS: Final = (
    "route", "method", "cross_origin", "no_key", "wrong_key", "locked_out", "role", "no_token_set", "class",
)  # fmt: skip

_WEBSOCKET_POLICY = 1008
_CROSS_ORIGIN = frozenset({RouteAccess.OPEN, RouteAccess.CLOSED, RouteAccess.INFERENCE})
_CHECKED_AGAIN = frozenset({RouteAccess.INFERENCE, RouteAccess.OPERATOR})


class RouteGuard:
    """ASGI middleware; ``access`` holds the routes and the keys."""

    __slots__ = ("_access", "_app", "_refused")

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._refused = dict.fromkeys(REASONS, 0)

    @property
    def refused(self) -> Mapping[str, int]:
        """The number of refused requests by reason, since the start."""
        return MappingProxyType(self._refused)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, or refuse it."""
        if scope["type"] in ("http", "websocket"):
            try:
                scope[IDENTITY], access = self._passed(scope)
            except AccessRefused as refused:
                self._refused[refused.reason] += 1
                await _refuse(scope, send, refused)
                return
            if access is RouteAccess.ADMIN:
                send = _without_cors(send)
        await self._app(scope, receive, send)

    def _passed(self, scope: Scope) -> tuple[Identity, RouteAccess]:
        """The identity of a request that may pass, and the access of its route. Raises AccessRefused."""
        path = plain_path(scope)
        route = None if path is None else self._access.table.find(path)
        if route is None:
            text = f"There is no such route.{self._meant(path)}"
            raise AccessRefused("route", HTTPStatus.NOT_FOUND, text, "route_not_found")
        method: str = WEBSOCKET if scope["type"] == "websocket" else scope["method"]
        if method == "OPTIONS":
            if _is_preflight(scope):
                return _preflight(route), route.access
        elif not route.allows(method):
            allowed = ", ".join(sorted((route.methods or set()) - {WEBSOCKET})).encode()
            text = f"This route has no method {method[:20]}."
            headers = ((b"allow", allowed),)
            raise AccessRefused("method", HTTPStatus.METHOD_NOT_ALLOWED, text, "method_not_allowed", headers)
        identity = self._identity(scope, route.access)
        if method == WEBSOCKET:
            self._access.check_websocket(identity)
        inner = self._access.api_keys.inner
        if inner is not None and route.access in _CHECKED_AGAIN:
            _present(scope, inner)
        return identity, route.access

    def _identity(self, scope: Scope, access: RouteAccess) -> Identity:
        """The identity of a client, or that of the sender for whom this process asks itself. Raises AccessRefused."""
        sender = scope.get(SENDER)
        if isinstance(sender, Sender) and access is RouteAccess.INFERENCE:
            return self._access.kept(sender, time.time())
        return self._access.identity(scope, access, asyncio.get_running_loop().time(), time.time())

    def _meant(self, path: str | None) -> str:
        """The route that a client with a wrong base URL probably means; empty without a similar route."""
        for meant in () if path is None else (f"/v1{path}", path.removeprefix("/v1")):
            route = self._access.table.find(meant)
            if route is not None and route.access is RouteAccess.INFERENCE:
                return (
                    f" Did you mean {meant}? Clients of OpenAI take a base URL that ends with /v1, Anthropic's do not."
                )
        return ""


def _is_preflight(scope: Scope) -> bool:
    names = {name for name, _ in scope["headers"]}
    return b"origin" in names and b"access-control-request-method" in names


def _preflight(route: Route) -> Identity:
    """The identity of a preflight, which generates nothing. Raises AccessRefused."""
    if route.access not in _CROSS_ORIGIN:
        text = "This route cannot be used from a page of another origin."
        raise AccessRefused("cross_origin", HTTPStatus.FORBIDDEN, text, "cross_origin")
    return NO_TENANT


def _present(scope: Scope, authorization: bytes) -> None:
    """Put a key that vLLM knows in place of the one that was checked here."""
    others = [(name, value) for name, value in scope["headers"] if name not in (b"authorization", b"x-api-key")]
    scope["headers"] = [*others, (b"authorization", authorization)]


def _without_cors(send: Send) -> Send:
    """Drop what vLLM's CORS middleware adds: no page of another origin may read an answer of the admin API."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [(name, value) for name, value in message["headers"] if not name.startswith(b"access-control-")]
            message = {**message, "headers": kept}
        await send(message)

    return sending


async def _refuse(scope: Scope, send: Send, refused: AccessRefused) -> None:
    """Answer in the format of the API; a server turns the close of a websocket before its start into a 403."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _WEBSOCKET_POLICY, "reason": refused.code})
    else:
        await answer(send, refused.status, refused.body(scope["path"]), refused.headers)
