"""The question whether a failed request has reached its server, by the error of the HTTP client.

A request that has not reached it is safe to send elsewhere, and no server can have ended because of it. ``headway
route`` and a fleet on Ray Serve decide it here.
"""

from __future__ import annotations

from typing import Final

import aiohttp

#: Raised before the first byte of a request is written. Not ``ServerTimeoutError``: that is also a server that is slow
#: to answer what it has.
_BEFORE_SENDING: Final = (
    aiohttp.ClientConnectorError,  # refused, unreachable, no such name, no TLS, no connection to a proxy
    aiohttp.ClientHttpProxyError,  # the proxy did not connect
    aiohttp.ConnectionTimeoutError,  # no connection in time: of the server, or free in the pool
    aiohttp.ServerFingerprintMismatch,
)


def unsent(error: Exception) -> bool:
    """Whether the server has not seen the request that ended with this error; False where it may have."""
    return isinstance(error, _BEFORE_SENDING)
