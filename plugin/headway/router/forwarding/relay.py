"""The relay: a client's request as it is read, and its response as it is sent, piece by piece.

The pieces come from the engine of ``headway route``, or from the replicas of a fleet on Ray Serve.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from starlette.types import Receive, Scope, Send

from headway.api_errors import BadRequest, answer, error_body, error_event, refusal_headers
from headway.errors import TooWideError
from headway.http.limits import whole_body
from headway.router.forwarding.call import EngineGoneError, InstanceLostError, NoInstanceError
from headway.router.forwarding.forwarded import NOT_RETURNED, Piece, beyond_connection, media_type

log = logging.getLogger(__name__)

_LOST: Final = BadRequest(
    HTTPStatus.BAD_GATEWAY, "The instances that worked on this request were lost. Try again.", "instance_lost"
)
_NOT_TAKEN: Final = BadRequest(
    HTTPStatus.BAD_GATEWAY, "No instance has taken this request. The log of this server says why.", "instance_lost"
)
#: The characters that need no quotes in a target.
_PRINTABLE: Final = "".join(map(chr, range(0x21, 0x7F)))


@dataclass(frozen=True, slots=True)
class Relay:
    """An ASGI application, no function, so that Starlette takes it for one.

    ``pieces`` gives the response to a request and its whole body. ``lost`` is the error where that breaks off; the
    headers ``hidden`` are not returned.
    """

    pieces: Callable[[Scope, bytes], AsyncGenerator[Piece, None]]
    lost: BadRequest = _LOST
    hidden: frozenset[str] = NOT_RETURNED

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward one request, until its response is over or its client has disconnected."""
        message = await whole_body(receive)
        if message["type"] != "http.request":  # its client left before, or was answered
            return
        forwarding = asyncio.ensure_future(self._forward(scope, message["body"], send))
        leaving = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait({forwarding, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not forwarding.done():
                forwarding.cancel()
                with suppress(asyncio.CancelledError):
                    await forwarding
        if not forwarding.cancelled():
            forwarding.result()

    async def _forward(self, scope: Scope, body: bytes, send: Send) -> None:
        path, started, streams, sent = scope["path"], False, False, b""
        try:
            async with aclosing(self.pieces(scope, body)) as pieces:
                async for piece in pieces:
                    if not started:
                        started, streams = True, media_type(piece.headers) == "text/event-stream"
                        await send(self._start(piece))
                    sent = piece.body or sent
                    await send({"type": "http.response.body", "body": piece.body, "more_body": not piece.last})
        except (BadRequest, TooWideError) as error:
            wide = BadRequest(HTTPStatus.BAD_REQUEST, str(error), "invalid_parameter")
            bad = error if isinstance(error, BadRequest) else wide
            await answer(send, bad.status, bad.body(path), bad.headers)
        except NoInstanceError as error:
            away = error.refused
            text = error_body(path, away.status, str(away), away.reason)
            await answer(send, away.status, text, refusal_headers(away, None))
        except (InstanceLostError, EngineGoneError) as error:
            taken = started or not isinstance(error, InstanceLostError) or error.sent
            log.warning("a request ends without its answer: %s", error if taken else "no instance has taken it")
            if not started:
                lost = self.lost if taken else _NOT_TAKEN
                await answer(send, lost.status, lost.body(path), lost.headers)
            elif streams:  # else the server closes the connection, which is all that can be said now
                event = error_event(path, self.lost.status, self.lost.message, self.lost.code)
                between = b"" if sent.endswith((b"\n\n", b"\r\n\r\n")) else b"\n\n"  # an event may have been cut
                await send({"type": "http.response.body", "body": between + event, "more_body": False})

    def _start(self, piece: Piece) -> dict[str, Any]:
        found = beyond_connection(piece.headers, self.hidden)
        # the very bytes that the instance has sent: the HTTP client decodes them so
        headers = [(name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in found]
        return {"type": "http.response.start", "status": piece.status, "headers": headers}


def target_of(scope: Scope) -> str:
    """The path and the query in the client's quoting; unquoted characters are quoted."""
    path, query = scope.get("raw_path") or quote(scope["path"]).encode(), scope.get("query_string", b"")
    return quote(path + b"?" * bool(query) + query, safe=_PRINTABLE)


def headers_of(scope: Scope) -> list[tuple[str, str]]:
    """The headers of a request."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
