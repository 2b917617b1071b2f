"""Trusted proxies: peers whose requests carry the tenant and the class in headers, as they have checked them.

HEADWAY_TRUSTED_PROXIES lists addresses and networks, with commas: ``10.0.0.5, 192.0.2.0/24, ::1``. Only a proxy that
checks its own clients belongs there: its requests without a key have every class and no caps.

Only the address of the connection counts, never X-Forwarded-For. uvicorn puts the address in that header in place of
the peer's where the peer is one of its FORWARDED_ALLOW_IPS (by default 127.0.0.1), so the bounded protocol keeps the
peer's under PEER. Without it, a request that has the header may have any peer, and is not trusted.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.types import Scope

from headway.errors import HeadwayError
from headway.settings import Environment

TRUSTED_PROXIES: Final = Environment.trusted_proxies.name
#: Where the ASGI scope holds the address and port of the connection, before any header changed them.
PEER: Final = "headway.peer"

_MAX_NETWORKS = 64
_MAPPED_BITS = 96
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    """Networks of trusted peers. A Unix socket has no address and is never one of them."""

    networks: tuple[_Network, ...] = ()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> TrustedProxies:
        """Read the list. Raises HeadwayError in one line that names the entry."""
        entries = Environment(environment).trusted_proxies
        if len(entries) > _MAX_NETWORKS:
            raise HeadwayError(f"{TRUSTED_PROXIES}: {len(entries)} entries, and {_MAX_NETWORKS} at most are possible")
        return cls(tuple(_network(entry) for entry in entries))

    def __bool__(self) -> bool:
        return bool(self.networks)

    def sent(self, scope: Scope) -> bool:
        """Whether the connection of this request comes from a trusted peer."""
        if not self.networks:
            return False
        peer = _peer(scope)
        if peer is None:
            return False
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        address = address if mapped is None else mapped
        return any(address in network for network in self.networks)


def _peer(scope: Scope) -> str | None:
    """The address of the connection; None if unknown or uncertain."""
    peer = scope[PEER] if PEER in scope else _client_without_forwarding(scope)
    return peer[0] if peer else None


def _client_without_forwarding(scope: Scope) -> tuple[str, int] | None:
    if any(name == b"x-forwarded-for" for name, _ in scope["headers"]):
        return None
    client: tuple[str, int] | None = scope.get("client")
    return client


def _network(entry: str) -> _Network:
    try:
        network = ipaddress.ip_network(entry)
    except ValueError as error:
        wanted = "an address or a network such as 10.0.0.5 or 192.0.2.0/24"
        raise HeadwayError(f"{TRUSTED_PROXIES}: {wanted} is needed, not {entry[:50]!r} ({error})") from None
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    if mapped is not None and network.prefixlen >= _MAPPED_BITS:  # as ``sent`` reads the peer
        network = ipaddress.ip_network((mapped, network.prefixlen - _MAPPED_BITS))
    if network.prefixlen == 0:
        raise HeadwayError(f"{TRUSTED_PROXIES}: {entry} would trust every client; name the proxies only")
    return network
