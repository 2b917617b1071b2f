"""The targets that a front passes on: inference and readiness, as the client has written them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

READINESS = "/headway/readyz"
_INFERENCE = "/v1/"


def target_of(scope: Mapping[str, Any]) -> str | None:
    """The path and query of an ASGI scope, for the server; None for one that is not passed on.

    The path is sent as it came, still quoted. One with dot segments is not passed on, since it might be another one
    there, and none with bytes that are not quoted.
    """
    path: str = scope["path"]
    if path != READINESS and not path.startswith(_INFERENCE):
        return None
    raw: bytes = scope.get("raw_path") or quote(path).encode("ascii")
    query: bytes = scope.get("query_string", b"")
    target = raw.partition(b"?")[0] + (b"?" + query if query else b"")
    if {".", ".."} & set(path.split("/")) or not target.isascii():
        return None
    return target.decode("ascii")
