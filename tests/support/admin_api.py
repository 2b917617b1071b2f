"""The admin API of an engine that does nothing, in process, as one client sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from engines import ReportingEngine
from starlette.applications import Starlette

import headway
from headway.api.routes import Role
from headway.http.admin import Tokens, routes

OPERATOR = "operator-token-0123456789-0123456789"
VIEWER = "viewer-token-0123456789-0123456789ab"
PRESET = "/headway/v1/preset"
STATUS = "/headway/v1/status"
#: Routes that only read, below the same prefix.
READS = ("status", "desk", "traffic", "traffic/trace", "presets", "preset", "audit")


@asynccontextmanager
async def admin_api(
    address: str = "192.0.2.7", url: str = "http://headway", *, configured: bool = True, **rules: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, headway.Control]]:
    """A client at this address, and the commands of the server, which is under the balanced preset and has tokens if it
    is ``configured``."""
    control: headway.Control = headway.wrap(ReportingEngine(), preset="balanced").headway
    async with client_of(control, address, url, configured=configured, **rules) as client:
        yield client, control


def client_of(
    control: headway.Control,
    address: str = "192.0.2.7",
    url: str = "http://headway",
    *,
    configured: bool = True,
    **rules: Any,
) -> httpx.AsyncClient:
    """A client at this address of the admin API of a server."""
    tokens = Tokens({OPERATOR: Role.OPERATOR, VIEWER: Role.VIEWER} if configured else {})
    app = Starlette(routes=routes(lambda: control, tokens, **rules))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app, client=(address, 50_000)), base_url=url)


def bearer(token: str = OPERATOR) -> dict[str, str]:
    """The header that carries a token."""
    return {"Authorization": f"Bearer {token}"}


async def switch(
    client: httpx.AsyncClient, name: str = "latency", *, token: str = OPERATOR, match: str = "*", **headers: str
) -> httpx.Response:
    """A switch; the names of ``headers`` have underscores."""
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return await client.put(PRESET, headers={**bearer(token), "If-Match": match, **named}, json={"name": name})


async def put(client: httpx.AsyncClient, token: str = OPERATOR, **options: Any) -> httpx.Response:
    """A switch of the first revision; the options may give other headers and another body."""
    headers = {**bearer(token), "If-Match": '"1"', **options.pop("headers", {})}
    return await client.put(PRESET, headers=headers, **({"json": {"name": "latency"}} | options))
