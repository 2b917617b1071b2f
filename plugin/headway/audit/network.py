"""The network of an address that counts as one client."""

from __future__ import annotations

import ipaddress

_HOST_BITS = 64
_MAX_TEXT_CHARS = 64


def network_of(address: str) -> str:
    """The /64 network of an IPv6 address, as one subscriber has; any other address itself."""
    if ":" not in address:
        return address[:_MAX_TEXT_CHARS]
    try:
        parsed = ipaddress.IPv6Address(address)
    except ValueError:
        return address[:_MAX_TEXT_CHARS]
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{int(parsed) >> _HOST_BITS:x}::/64"
