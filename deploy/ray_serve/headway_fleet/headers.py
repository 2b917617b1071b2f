"""The headers that go through a fleet, from a client to a server and back: all but those of one connection.

Unlike ``headway route``, a fleet leaves keys, the class and the tenant to its servers, so it passes on what names them.
"""

from __future__ import annotations

from collections.abc import Iterable

from headway.router.forwarded import Headers, beyond_connection

_FORWARDED_FOR = "x-forwarded-for"
#: Set again for the next connection.
_OF_ONE_MESSAGE = frozenset({"content-length", "host"})
#: Serve's own proxy adds these to every response; the id is the same, that of the request.
_OF_SERVE = frozenset({"date", "server", "x-request-id"})


def of_client(headers: Iterable[tuple[str, str]], address: str | None) -> Headers:
    """The headers of a client's request, with its own address in place of what it says of it."""
    kept = _without(_OF_ONE_MESSAGE | {_FORWARDED_FOR}, headers)
    return (*kept, (_FORWARDED_FOR, address)) if address else kept


def of_server(headers: Iterable[tuple[str, str]]) -> Headers:
    """The headers of a server's response."""
    return _without(_OF_ONE_MESSAGE | _OF_SERVE, headers)


def _without(names: frozenset[str], headers: Iterable[tuple[str, str]]) -> Headers:
    return tuple((name, value) for name, value in beyond_connection(headers) if name not in names)
