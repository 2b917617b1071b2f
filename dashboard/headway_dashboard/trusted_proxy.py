"""The login by a proxy: the user's name in a header, which counts only in a request that a trusted proxy sent.

Any client that reaches the dashboard can send any header. The middleware removes the header of the user from every
request and connection. Where the peer is a trusted proxy, it adds the user in a header whose name is random in each
process.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any
from urllib.parse import quote

from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

HEADER = "HEADWAY_DASHBOARD_USER_HEADER"
PROXIES = "HEADWAY_DASHBOARD_TRUSTED_PROXIES"
#: The name of the header from which the pages read the user. No client can know it.
PROVEN = f"headway-user-{secrets.token_hex(16)}"
_MAX_NAME_CHARS = 200

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class TrustedProxy:
    """The header that names the user, and the networks whose header counts; without a header there is no such login.

    ``problem`` says what is wrong with the settings. Then no header counts, and no visitor can log in.
    """

    header: str = ""
    networks: tuple[Network, ...] = ()
    problem: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> TrustedProxy:
        """Read the name of the header and the list of addresses and networks."""
        header = environment.get(HEADER, "").strip().lower()
        if not header:
            return cls()
        texts = [text.strip() for text in environment.get(PROXIES, "").split(",") if text.strip()]
        try:
            networks = tuple(ip_network(text) for text in texts)
        except ValueError as error:
            return cls(header, problem=f"{PROXIES}: {error}.")
        if not networks:
            return cls(header, problem=f"{HEADER} is set, but {PROXIES} names no proxy that may send it.")
        return cls(header, networks)

    @property
    def configured(self) -> bool:
        """Whether visitors log in at a proxy."""
        return bool(self.header)

    def user(self, headers: Headers, peer: str) -> str:
        """The user that these headers name, if the peer may name one; empty otherwise, and where they name two."""
        named = [value for name, value in headers if name.lower() == self._wanted]
        if len(named) != 1 or not self._trusts(peer, headers):
            return ""
        text = _text(named[0]).strip()
        return text if text.isprintable() and len(text) <= _MAX_NAME_CHARS else ""

    def without_users(self, headers: Headers) -> Headers:
        """The headers without those that name a user."""
        return [(name, value) for name, value in headers if name.lower() not in (self._wanted, PROVEN.encode())]

    @property
    def _wanted(self) -> bytes:
        return self.header.encode("latin-1", "replace")

    def _trusts(self, peer: str, headers: Headers) -> bool:
        """Whether the header of this peer counts. An address that X-Forwarded-For contains may be the client's own
        text: uvicorn replaces the address of a peer on the loopback by that header."""
        address = _address(peer)
        if address is None or address in _forwarded(headers):
            return False
        return any(address in network for network in self.networks)


class ProxyLogin:
    """The middleware: each request and each connection carries the proven user, or none."""

    def __init__(self, app: ASGIApp, proxy: TrustedProxy) -> None:
        self._app = app
        self._proxy = proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Replace the header of the user, and call the application."""
        if scope["type"] in ("http", "websocket"):
            scope = {**scope, "headers": self._headers(scope)}
        await self._app(scope, receive, send)

    def _headers(self, scope: MutableMapping[str, Any]) -> Headers:
        headers: Headers = list(scope["headers"])
        client = scope.get("client")
        user = self._proxy.user(headers, str(client[0]) if client else "")
        kept = self._proxy.without_users(headers)
        return [*kept, (PROVEN.encode(), quote(user).encode())] if user else kept


def middleware(environment: MutableMapping[str, str] = os.environ) -> list[Middleware]:
    """The middleware of the dashboard, where a proxy is set up.

    The function also stops uvicorn from replacing the address of a peer on the loopback by X-Forwarded-For, unless
    uvicorn has read its settings already.
    """
    proxy = TrustedProxy.from_environment(environment)
    if not proxy.configured:
        return []
    environment["FORWARDED_ALLOW_IPS"] = ""
    return [Middleware(ProxyLogin, proxy=proxy)]


def _text(value: bytes) -> str:
    """UTF-8, as proxies send names today; else Latin-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _forwarded(headers: Headers) -> set[Address]:
    """Every address in X-Forwarded-For."""
    lists = [value.decode("latin-1") for name, value in headers if name.lower() == b"x-forwarded-for"]
    parts = [part.strip() for text in lists for part in text.split(",")]
    # Each may carry a port: 10.0.0.5:80, or [2001:db8::1]:80.
    bare = [text for part in parts for text in (part.rpartition(":")[0], part[1:].partition("]")[0])]
    return {found for text in (*parts, *bare) if (found := _address(text)) is not None}


def _address(text: str) -> Address | None:
    """An address; an IPv4 address in the notation of IPv6 is the IPv4 address."""
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found
