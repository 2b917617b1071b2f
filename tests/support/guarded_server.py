"""An application behind the route guard, with a keys file and tokens of both roles."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from asgi_client import AsgiClient
from small_presets import small_preset
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from headway.api.routes import Role
from headway.http.access import Access, RouteGuard, RouteTable, identity_of
from headway.http.access.identity import Identity
from headway.http.access.route_table import known_routes
from headway.http.admin.tokens import Tokens
from headway.openai.routes import WEBSOCKET, RouteAccess
from headway_policies.entitlement import Entitlement

OPERATOR, VIEWER, TENANT, OF_VLLM = "o" * 32, "v" * 32, "hw-tenant", "sk-vllm"
PRESET = small_preset()
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "QUERY")
ACME = Entitlement("acme", classes=frozenset({"batch"}))


class Ring:
    """A ring with one key, which has expired from a certain time on."""

    expires_s = float("inf")

    def entitlement_of(
        self, authorization: str | None, x_api_key: str | None, now_s: float
    ) -> tuple[str, Entitlement] | None:
        known = TENANT in (x_api_key, (authorization or "").removeprefix("Bearer "))
        return ("acme-1", ACME) if known and now_s < self.expires_s else None


class Keys:
    """A keys file with that ring."""

    def __init__(self) -> None:
        self.ring = Ring()


def access(**changed: Any) -> Access:
    """A keys file with one key, and tokens of both roles."""
    tokens = Tokens({OPERATOR: Role.OPERATOR, VIEWER: Role.VIEWER})
    terms: dict[str, Any] = {
        "table": RouteTable.from_environment({}),
        "role": tokens.role,
        "has_tokens": True,
        "preset": lambda: PRESET,
        "keys": Keys(),
    }
    return Access(**(terms | changed))


class Server:
    """An application with every known route, which keeps the identities that reached it, behind a guard."""

    def __init__(self, decides: Access, **options: Any) -> None:
        self.reached: list[Identity | None] = []
        self.headers: list[list[tuple[bytes, bytes]]] = []
        known = list(known_routes())
        paths = [re.sub(r"\{\w+\}", "{one}", route.path) for route in known if WEBSOCKET not in (route.methods or ())]
        self.app = Starlette(
            routes=[
                *(Route(path, self._answer, methods=list(METHODS)) for path in [*paths, "/closed/route"]),
                WebSocketRoute("/v1/realtime", self._talk),
                WebSocketRoute("/closed/socket", self._talk),
            ],
            middleware=[Middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])],
        )
        self.guard = RouteGuard(self.app, decides)
        self.root_path = options.get("root_path", "")

    async def _answer(self, request: Request) -> JSONResponse:
        self._keep(request)
        return JSONResponse({})

    async def _talk(self, socket: WebSocket) -> None:
        self._keep(socket)
        await socket.accept()
        await socket.close()

    def _keep(self, request: Any) -> None:
        self.reached.append(identity_of(request.scope))
        self.headers.append(request.scope["headers"])

    async def ask(
        self, target: str, method: str = "GET", key: str | None = None, *, client: str = "203.0.113.7", **more: Any
    ) -> AsgiClient:
        """The answer to one request; a key goes into a Bearer header."""
        headers = [(b"host", b"x"), *more.pop("headers", [])]
        if key is not None:
            headers.append((b"authorization", f"Bearer {key}".encode()))
        reply = AsgiClient(self.guard)
        scope = {
            "method": method, "raw_path": target.encode("latin-1", "replace"), "root_path": self.root_path,
            "client": (client, 50000), "server": ("x", 80), "scheme": "http", "http_version": "1.1", **more,
        }  # fmt: skip
        await reply.ask(*headers, path=unquote(target), **scope)
        return reply


def of_access(*wanted: RouteAccess) -> list[tuple[str, str]]:
    """A path and one of its methods, for every known HTTP route with this access."""
    return [
        (re.sub(r"\{\w+\}", "x", route.path), min(route.methods or {"GET"}))
        for route in known_routes()
        if route.access in wanted and WEBSOCKET not in (route.methods or ())
    ]


HOLDERS = {"nobody": None, "wrong": "w" * 32, "tenant": TENANT, "viewer": VIEWER, "operator": OPERATOR}
