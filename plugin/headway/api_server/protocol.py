"""uvicorn's HTTP protocol, with a bound on the head of a request and on the time it may take.

vLLM starts uvicorn, which takes httptools wherever that is installed. httptools has no bound at all: header fields of
any size and number are collected before an application is asked, trailers of a chunked body likewise; vLLM's
``--h11-max-incomplete-event-size`` and ``--h11-max-header-count`` mean h11, which is not in use then. Nor does uvicorn
end a connection that never completes a request, or one whose request drips on after it was answered. Importing this
module needs httptools.

    no head in time        408, or a plain close where nothing has come
    target too long        414
    too many connections   503 and a close: at once, or of a few once their head is there, if they are no probe
    fields too large       431, as soon as one read of the socket (256 KiB) more than the bound has come
    too many fields        431
    answered, not over     closed when the rest of the request does not come in time
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from uvicorn.protocols.http import auto
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headway.api_errors import error_body
from headway.http import MAX_TARGET_BYTES, Bounds
from headway.http.access import PEER
from headway.http.limits.connections import Connections

_PROBES = frozenset({b"/health", b"/headway/healthz", b"/headway/readyz", b"/metrics"})
_FIELD_BYTES = len(": \r\n")
_SENTENCES = {
    HTTPStatus.REQUEST_TIMEOUT: "The head of the request did not come in time.",
    HTTPStatus.REQUEST_URI_TOO_LONG: "The request target is longer than this server accepts.",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "The request headers are too many, or too large, for this server.",
    HTTPStatus.SERVICE_UNAVAILABLE: "This server has too many open connections. Try again later.",
}
_CODES = {
    HTTPStatus.REQUEST_TIMEOUT: "head_too_slow",
    HTTPStatus.REQUEST_URI_TOO_LONG: "target_too_long",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "headers_too_large",
    HTTPStatus.SERVICE_UNAVAILABLE: "too_many_connections",
}
_RETRY_AFTER_S = 2


class _TooLarge(Exception):
    """An error that ends the parser from inside one of its callbacks."""


class BoundedProtocol(HttpToolsProtocol):
    """A connection; ``bounds`` and the count of the open ones are the same for all."""

    bounds = Bounds()
    all_connections = Connections(bounds.max_connections)

    _unread_bytes = 0  # fed to the parser since it last began a request, or gave a part of a body
    _field_bytes = _fields = 0
    _counted = False  # among all connections
    _spare = False  # beyond them, for a probe
    _upgraded = False  # another protocol has the connection
    _open = False  # a request has begun and is not complete
    _in_head = True
    _refusal: HTTPStatus | None = None
    _limit: asyncio.TimerHandle | None = None

    def connection_made(  # type: ignore[override]  # as uvicorn's own: it serves transports that can write
        self, transport: asyncio.Transport
    ) -> None:
        """Start the time limit of a head, or refuse the connection."""
        super().connection_made(transport)
        self._counted = self.all_connections.enter(self._address())
        self._spare = not self._counted and self.all_connections.enter_spare()
        if self._counted or self._spare:
            self._limit_wait()
        else:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the time limit."""
        self._end_limit()
        self._leave()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        """Pass the connection to another protocol; it stays counted until that has lost it."""
        super().handle_websocket_upgrade()
        self._upgraded = True
        protocol = self.transport.get_protocol()
        lost = protocol.connection_lost

        def counted(exc: Exception | None) -> None:
            self._leave()
            lost(exc)

        protocol.connection_lost = counted  # type: ignore[method-assign]  # its class is the choice of uvicorn

    def data_received(self, data: bytes) -> None:
        """Count bytes that the parser buffers: it passes a field on only when it is complete."""
        self._unread_bytes += len(data)
        super().data_received(data)
        if self._unread_bytes > self.bounds.max_header_bytes + MAX_TARGET_BYTES and not self.transport.is_closing():
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif self._is_idle():  # blank lines begin no request, and have ended uvicorn's limit of an idle connection
            self._limit_wait()

    def on_message_begin(self) -> None:
        """Note the first byte of a request."""
        self._open = self._in_head = True
        self._field_bytes = self._fields = 0
        self._limit_wait()
        super().on_message_begin()
        self.scope[PEER] = self.client  # type: ignore[typeddict-unknown-key]  # a proxy's header may replace the other

    def on_url(self, url: bytes) -> None:
        """A part of the target."""
        super().on_url(url)
        if len(self.url) > MAX_TARGET_BYTES:
            self._refusal = HTTPStatus.REQUEST_URI_TOO_LONG
            raise _TooLarge

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head, or of the trailers."""
        self._field_bytes += len(name) + len(value) + _FIELD_BYTES
        self._fields += 1
        if self._field_bytes > self.bounds.max_header_bytes or self._fields > self.bounds.max_header_fields:
            self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise _TooLarge
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is complete: the body has a time limit of its own where it is read."""
        self._in_head, self._unread_bytes = False, 0
        self._end_limit()
        if self._spare and self.url.partition(b"?")[0] not in _PROBES:
            self._refusal = HTTPStatus.SERVICE_UNAVAILABLE
            raise _TooLarge
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._unread_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._open, self._in_head, self._unread_bytes = False, True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The answer is sent; the rest of the request has a limited time to arrive, and the next request after it.

        uvicorn's own limit for an idle connection is ended by the first byte that comes after the answer.
        """
        super().on_response_complete()
        if self._open and not self.transport.is_closing():
            self._limit_wait()

    def send_400_response(self, msg: str) -> None:
        """Answer where the parser stopped: by Headway's bounds, or by a syntax error."""
        if self._refusal is None:
            super().send_400_response(msg)
        else:
            self._refuse(self._refusal)

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer and close; in the middle of another answer only close."""
        self._end_limit()
        if self.cycle is None or self._answered():
            body = error_body("", status, _SENTENCES[status], _CODES[status])
            head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
            if status == HTTPStatus.SERVICE_UNAVAILABLE:
                head += f"retry-after: {_RETRY_AFTER_S}\r\n"
            head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self.transport.write(head.encode() + body)
        self.transport.close()

    def _address(self) -> str | None:
        return None if self.client is None else self.client[0]

    def _leave(self) -> None:
        if self._counted:
            self._counted = False
            self.all_connections.leave(self._address())
        if self._spare:
            self._spare = False
            self.all_connections.leave_spare()

    def _is_idle(self) -> bool:
        """Whether no request is under way, and no time limit either."""
        busy = self._open or self._upgraded or self._limit is not None or self.transport.is_closing()
        return not busy and (self.cycle is None or self._answered())

    def _answered(self) -> bool:
        """Whether the last request that was handed to the application has its whole answer."""
        return self.cycle is not None and bool(self.cycle.response_complete)

    def _limit_wait(self) -> None:
        """Give the connection the time limit of a slow body."""
        self._end_limit()
        self._limit = self.loop.call_later(self.bounds.body_timeout_s, self._waited_too_long)

    def _end_limit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _waited_too_long(self) -> None:
        self._limit = None
        if self.cycle is not None and not self._answered():
            self._limit_wait()  # an answer is under way; what comes behind it may wait
        elif self._open and self._in_head:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        else:
            self.transport.close()


def bound_protocol(bounds: Bounds) -> None:
    """Put the bounded protocol where uvicorn looks for its own, before it does."""
    BoundedProtocol.bounds = bounds
    BoundedProtocol.all_connections = Connections(bounds.max_connections, bounds.max_connections_per_address)
    auto.AutoHTTPProtocol = BoundedProtocol
