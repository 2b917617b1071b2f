"""The headers that go through a proxy: all but those of one connection (RFC 9110, section 7.6.1)."""

from __future__ import annotations

from collections.abc import Iterable

from headway_fleet.messages import Headers

_OF_ONE_CONNECTION = frozenset(
    {"connection", "content-length", "host", "keep-alive", "proxy-authenticate", "proxy-authorization",
     "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)  # fmt: skip
_FORWARDED_FOR = "x-forwarded-for"
#: Serve's own proxy adds these to every response; the id is the same, that of the request.
_OF_SERVE = frozenset({"date", "server", "x-request-id"})


def passed_on(headers: Iterable[tuple[str, str]]) -> Headers:
    """The headers that do not belong to the connection they came by; ``Connection`` may name further ones."""
    found = [(name.lower(), value) for name, value in headers]
    named = {word.strip().lower() for name, value in found if name == "connection" for word in value.split(",")}
    return tuple((name, value) for name, value in found if name not in _OF_ONE_CONNECTION | named)


def of_client(headers: Iterable[tuple[str, str]], address: str | None) -> Headers:
    """The headers of a client's request, with its own address in place of what it says of it."""
    kept = [(name, value) for name, value in passed_on(headers) if name != _FORWARDED_FOR]
    return (*kept, (_FORWARDED_FOR, address)) if address else tuple(kept)


def of_server(headers: Iterable[tuple[str, str]]) -> Headers:
    """The headers of a server's response."""
    return tuple((name, value) for name, value in passed_on(headers) if name not in _OF_SERVE)
