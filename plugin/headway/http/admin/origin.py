"""The Origin check of orders (RFC 6454): a page of another site may send none, whatever its browser knows.

A browser sends ``Origin`` with every PUT and POST of a page; programs send none. It must be the origin of the server's
own URL, by the scheme of the connection and the ``Host`` header, or a listed one. Behind a proxy that ends TLS, and
does not tell the scheme, the origin of the proxy must be listed.
"""

from __future__ import annotations

from collections.abc import Set
from urllib.parse import urlsplit

from starlette.requests import Request

_USUAL_PORTS = {"http": 80, "https": 443}
_MAX_CHARS = 300


def origin_of(text: str) -> str | None:
    """Scheme, host and port in one form; None where the text is no origin and nothing else."""
    if len(text) > _MAX_CHARS or not (text.isascii() and text.isprintable()):
        return None
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    host = parts.hostname
    if parts.scheme not in _USUAL_PORTS or not host or " " in text or "@" in parts.netloc:
        return None
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        return None
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}:{port if port is not None else _USUAL_PORTS[parts.scheme]}"


def foreign_origin(request: Request, listed: Set[str]) -> str | None:
    """The origin of a request that is neither the server's own nor a listed one; None where all is well."""
    sent = request.headers.getlist("origin")
    if not sent:
        return None
    scheme, host = request.scope.get("scheme", "http"), request.headers.get("host", "")
    own = origin_of(f"{scheme}://{host}")
    allowed = {*listed, own} - {None}
    return next((one for one in sent if origin_of(one) not in allowed), None)
