"""Forwarding: one client's request to a replica, and to another one where that was lost before its first output.

Before the client is sent anything, an attempt is followed until its response is certain: of a stream of events that is
the first piece, of any other response the whole body, up to 1 MiB. A response that breaks off later is not tried again:
a stream ends with an error event, any other one with its connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from http import HTTPStatus

from headway.api_errors import error_body, error_event
from headway.router.forwarded import Headers
from headway_fleet.messages import Accepted, Forwarded, Head, Lost, Message
from headway_fleet.retries import MOST_LOSSES, goes_elsewhere

log = logging.getLogger("ray.serve")

Send = Callable[[Forwarded], AsyncGenerator[Message, None]]

#: The header of a response that names the replica.
REPLICA = "x-headway-replica"
_HELD_BYTES = 1024 * 1024
_AGAIN_S = 2.0
_RETRY_AFTER_S = 5
_JSON = ("content-type", "application/json")


class LostError(Exception):
    """The replica ended, or its server did, while it had a request. Raised by ``Send`` and by what it returns."""


class UnreachedError(Exception):
    """The server of the replica could not be reached, so it has not had the request."""


class NoReplicaError(Exception):
    """There was no replica for a request in time, or too many requests wait for one. Raised by ``Send``, too."""


@dataclass(frozen=True, slots=True)
class Response:
    """What the client gets: the ``body`` is to be read to its end, or closed."""

    status: int
    headers: Headers
    body: Body


class Body:
    """The pieces of a body, and the messages of the replica that end with it, also where no piece was read."""

    def __init__(self, pieces: AsyncGenerator[bytes, None], messages: AsyncGenerator[Message, None] | None) -> None:
        self._pieces = pieces
        self._messages = messages

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._pieces)

    async def aclose(self) -> None:
        """Nobody reads further: the replica's work is cancelled."""
        await self._pieces.aclose()
        if self._messages is not None:
            await self._messages.aclose()


class Forwarding:
    """The front's way to the replicas. ``route_s`` bounds the wait for a replica, not that for its answer."""

    def __init__(self, send: Send, route_s: float) -> None:
        self._send = send
        self._route_s = route_s

    async def response(self, request: Forwarded) -> Response:
        """The response for the client; one of this fleet's own where no replica has given one."""
        losses, last = 0, None
        while losses < MOST_LOSSES:
            attempt = _Attempt(self._send(request), request.target)
            try:
                found = await attempt.response(self._route_s if last is None else _AGAIN_S)
            except NoReplicaError as error:
                log.warning("headway: no replica for a request: %s", error)
                break
            except UnreachedError as error:
                log.warning("headway: the server of %s could not be reached: %s", ", ".join(attempt.tried), error)
            except LostError as error:
                losses += 1
                log.warning("headway: a request was lost by %s: %s", ", ".join(attempt.tried) or "a replica", error)
            else:
                if found.certain:
                    return found.response
                last = found.response
            request = replace(request, tried=request.tried | attempt.tried)
        if last is not None:
            return last
        return _own(request.target, "poison" if losses >= MOST_LOSSES else "engine_lost" if losses else "not_ready")


@dataclass(frozen=True, slots=True)
class _Found:
    response: Response
    certain: bool


class _Attempt:
    """One try on one replica."""

    def __init__(self, messages: AsyncGenerator[Message, None], target: str) -> None:
        self._messages = messages
        self._target = target
        self.tried: frozenset[str] = frozenset()

    async def response(self, route_s: float) -> _Found:
        """Raises NoReplicaError, UnreachedError and LostError; the replica's work has been cancelled then."""
        try:
            head = await self._head(route_s)
            held, ended = await self._held(head)
        except BaseException:
            await self._messages.aclose()
            raise
        headers = (*head.headers, *((REPLICA, name) for name in self.tried))
        if ended or goes_elsewhere(head):
            await self._messages.aclose()
            return _Found(Response(head.status, headers, _all(held)), certain=not goes_elsewhere(head))
        rest = Body(self._rest(held, _is_stream(head)), self._messages)
        return _Found(Response(head.status, headers, rest), certain=True)

    async def _head(self, route_s: float) -> Head:
        try:
            async with asyncio.timeout(route_s):
                accepted = await self._next()
        except TimeoutError:
            raise NoReplicaError(f"none has taken it within {route_s:g} s") from None
        if isinstance(accepted, Accepted):
            self.tried = frozenset({accepted.replica})
        head = await self._next()
        if isinstance(head, Lost) and not head.had_it:
            raise UnreachedError(head.error)
        if not isinstance(head, Head):
            raise LostError(f"no response: {head!r}")
        return head

    async def _held(self, head: Head) -> tuple[list[bytes], bool]:
        """The beginning of the body, and whether that is all of it."""
        held: list[bytes] = []
        most_bytes = 1 if _is_stream(head) else _HELD_BYTES
        while sum(map(len, held)) < most_bytes:
            piece = await self._next()
            if piece is None:
                return held, True
            held.append(_bytes(piece))
        return held, False

    async def _rest(self, held: list[bytes], is_stream: bool) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._messages):
            try:
                for piece in held:
                    yield piece
                while (message := await self._next()) is not None:
                    yield _bytes(message)
            except LostError as error:
                log.warning("headway: a response was broken off by %s: %s", ", ".join(self.tried), error)
                if not is_stream:
                    raise
                text = "the server was lost while it answered"
                yield error_event(self._path, HTTPStatus.SERVICE_UNAVAILABLE, text, "engine_lost")

    async def _next(self) -> Message | None:
        return await anext(self._messages, None)

    @property
    def _path(self) -> str:
        return self._target.partition("?")[0]


def _all(pieces: list[bytes]) -> Body:
    async def each() -> AsyncGenerator[bytes, None]:
        for piece in pieces:
            yield piece

    return Body(each(), None)


def _bytes(message: Message) -> bytes:
    if isinstance(message, bytes):
        return message
    raise LostError(f"the response broke off: {message!r}")


def _is_stream(head: Head) -> bool:
    return head.header("content-type").startswith("text/event-stream")


_TEXTS = {
    "not_ready": "no server is ready",
    "engine_lost": "the server was lost, and no other one is ready",
    "poison": f"{MOST_LOSSES} servers were lost while they had this request",
}


def _own(target: str, reason: str) -> Response:
    status, path = HTTPStatus.SERVICE_UNAVAILABLE, target.partition("?")[0]
    advice = ("x-should-retry", "false") if reason == "poison" else ("retry-after", str(_RETRY_AFTER_S))
    body = error_body(path, status, _TEXTS[reason], reason)
    return Response(int(status), (_JSON, ("x-headway-reason", reason), advice), _all([body]))


__all__ = ["REPLICA", "Body", "Forwarding", "LostError", "NoReplicaError", "Response", "Send"]
