"""The middleware that gives each request its ids: one that its client sees, and one of its own for the engine.

vLLM names engine calls and answers after the header ``X-Request-Id``, so two clients with one id would meet there. The
header is therefore replaced by an id that begins with the client's and is never used twice. The answer has the
client's own id, or a new one where that is missing or unsafe in a log line. The same ids and the trace of the request
are put into ``CURRENT_REQUEST``.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headway.tracing.current_request import CURRENT_REQUEST, CurrentRequest, parse_trace_parent

if TYPE_CHECKING:  # the processes of the engine log with this package, and serve nothing
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER: Final = b"x-request-id"
MAX_ID_CHARS: Final = 128

#: Printable ASCII without spaces, quotes and backslashes.
_SAFE = re.compile(rb"[!#-&(-\[\]-~]{1,%d}" % MAX_ID_CHARS)
_TRACE_PARENT = b"traceparent"
_KEPT_CHARS = 100  # of the client's id in the engine's: the whole has room where an id may have 128 characters
_UNIQUE_CHARS = 16
_STARTS = frozenset({"http.response.start", "websocket.http.response.start"})

_Field = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class RequestIds:
    """ASGI middleware, to be put around all others: a refusal of theirs has the header, too."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request under its own ids."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        current, fields = identify(scope["headers"])
        token = CURRENT_REQUEST.set(current)
        try:
            await self.app({**scope, "headers": fields}, receive, _naming(send, current.request_id))
        finally:
            CURRENT_REQUEST.reset(token)


def identify(fields: Iterable[_Field]) -> tuple[CurrentRequest, list[_Field]]:
    """The ids of a request, and its header fields (names in lower case) with the engine's id in place of the client's.

    A field that comes twice counts as absent: it is not known which of the two was meant.
    """
    ids: list[bytes] = []
    parents: list[bytes] = []
    kept: list[_Field] = []
    for field in fields:
        name = field[0]
        if name == HEADER:
            ids.append(field[1])
            continue
        if name == _TRACE_PARENT:
            parents.append(field[1])
        kept.append(field)
    own = secrets.token_hex(16)
    request_id = engine_id = own
    if len(ids) == 1 and _SAFE.fullmatch(ids[0]):
        request_id = ids[0].decode("ascii")
        engine_id = f"{request_id[:_KEPT_CHARS]}-{own[:_UNIQUE_CHARS]}"
    kept.append((HEADER, engine_id.encode("ascii")))
    trace = parse_trace_parent(parents[0]) if len(parents) == 1 else None
    return CurrentRequest(request_id, engine_id, trace), kept


def _naming(send: Send, request_id: str) -> Send:
    """A ``send`` that puts the id into the head of the response, replacing any present id."""
    field = (HEADER, request_id.encode("ascii"))

    async def naming(message: Message) -> None:
        if message["type"] in _STARTS:
            others = [header for header in message.get("headers", ()) if header[0].lower() != HEADER]
            message = {**message, "headers": [*others, field]}
        await send(message)

    return naming
