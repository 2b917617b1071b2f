"""The requests of clients that a front passes on: inference and readiness, as their clients have written them.

Unlike ``headway route``, a fleet leaves keys to its servers, so it passes on what names them. A client chooses neither
its class nor its tenant by headers: its key does, on the server.
"""

from __future__ import annotations

from starlette.types import Scope

from headway.router.forwarding.forwarded import Forwarded, beyond_connection
from headway.router.forwarding.relay import headers_of, target_of

_READINESS, _INFERENCE = "/headway/readyz", "/v1/"
_NOT_FORWARDED = frozenset({"content-length", "host", "x-forwarded-for", "x-headway-class", "x-headway-tenant"})


def is_open(scope: Scope) -> bool:
    """Whether clients may ask for this path. A path with dot segments might be another one at the server."""
    path: str = scope["path"]
    return (path == _READINESS or path.startswith(_INFERENCE)) and not {".", ".."} & set(path.split("/"))


def forwarded(scope: Scope, body: bytes) -> Forwarded:
    """The request for a server, with the client's real address in place of the claimed address."""
    headers, client = beyond_connection(headers_of(scope), _NOT_FORWARDED), scope.get("client")
    own = (("x-forwarded-for", client[0]),) if client else ()
    return Forwarded(scope["method"], target_of(scope), (*headers, *own), body)
