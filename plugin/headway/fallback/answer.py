"""The answer to the client of a diverted request, and the possible results of diverting it."""

from __future__ import annotations

import logging
from enum import StrEnum
from http import HTTPStatus
from typing import Any

from headway.api_errors import error_event
from headway.fallback.diverted_request import DivertedRequest

log = logging.getLogger(__name__)

JSON, EVENTS = "application/json", "text/event-stream"


class ForwardResult(StrEnum):
    """The result of diverting a request. After any but NOT_SERVED there is nothing left to answer."""

    SERVED = "served"
    NOT_SERVED = "not_served"
    BROKEN_OFF = "broken_off"
    CLIENT_GONE = "client_gone"


class ClientGoneError(Exception):
    """The client has disconnected."""


class ClientAnswer:
    """The answer to the client; ``degraded`` is its ``x-headway-degraded``. Raises ClientGoneError."""

    def __init__(self, request: DivertedRequest, degraded: str) -> None:
        self._path = request.path
        self._send = request.send
        self._signature = [(b"x-headway-class", request.class_name), (b"x-headway-degraded", degraded)]
        if request.lowered is not None:
            name, value = request.lowered.header()
            self._signature.append((name.encode(), value))
        self.begun = self.ended = False

    async def whole(self, body: bytes) -> None:
        """Send the whole answer at once."""
        await self._start(JSON, (b"content-length", str(len(body))))
        await self._body(body, more=False)

    async def events(self, events: bytes) -> None:
        """Send more events of a stream."""
        if not self.begun:
            await self._start(f"{EVENTS}; charset=utf-8", (b"cache-control", "no-cache"))
        await self._body(events, more=True)

    async def end(self) -> None:
        """End the stream."""
        await self._body(b"", more=False)

    async def break_off(self) -> None:
        """End with an error a stream that cannot go on."""
        text = "The fallback model broke off its answer."
        try:
            await self._body(error_event(self._path, HTTPStatus.BAD_GATEWAY, text, "fallback_broke_off"), more=False)
        except ClientGoneError:
            log.debug("the client had disconnected, too")

    async def _start(self, content_type: str, header: tuple[bytes, str]) -> None:
        fields = ((b"content-type", content_type), header, *self._signature)
        headers = [(name, value.encode("latin-1")) for name, value in fields]
        await self._put({"type": "http.response.start", "status": int(HTTPStatus.OK), "headers": headers})
        self.begun = True

    async def _body(self, body: bytes, *, more: bool) -> None:
        self.ended = not more
        await self._put({"type": "http.response.body", "body": body, "more_body": more})

    async def _put(self, message: dict[str, Any]) -> None:
        try:
            await self._send(message)
        except OSError as error:  # how the ASGI server says that the connection is closed
            raise ClientGoneError from error
