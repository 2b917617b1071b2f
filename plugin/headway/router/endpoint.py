"""The routes that are forwarded: each as it came, to the instance that the router chose.

What generates, embeds or scores takes a seat at the desk. What only reads a prompt or describes the model goes to any
healthy instance at once. What keeps state on one instance cannot be served by several, and has no route here.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from headway.admission import REQUEST_CONTEXT, RequestContext
from headway.api_errors import BadRequest, answer, error_body, error_event, refusal_headers
from headway.errors import Refused, TooWideError
from headway.router.call import EngineGoneError, InstanceLostError
from headway.router.engine import InstancesEngine, NoInstanceError
from headway.router.forwarded import CallParams, Forwarded, Headers, Piece, request_headers
from headway_policies import Reason
from headway_policies.routing import Demand

log = logging.getLogger(__name__)

#: Routes that take a seat, by their path below the root.
SEATED: Final = (
    "/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/v1/score",
    "/v1/rerank", "/v2/rerank", "/rerank", "/score", "/pooling", "/classify", "/v1/audio/transcriptions",
    "/v1/audio/translations", "/inference/v1/generate",
)  # fmt: skip
#: Routes that need none, by method.
UNSEATED: Final = {
    "GET": ("/v1/models", "/v1/models/{model:path}", "/version"),
    "POST": ("/tokenize", "/detokenize", "/v1/messages/count_tokens"),
}
#: Seated routes without a sequence that grows: however long the list of their inputs is, they take one seat.
_ONE_SEAT: Final = ("/embeddings", "/score", "/rerank", "/pooling", "/classify")


@dataclass(frozen=True, slots=True)
class ForwardEndpoint:
    """An ASGI application for all forwarded routes; ``engine`` is the policy client of the router."""

    engine: Callable[[], InstancesEngine]

    def routes(self) -> list[BaseRoute]:
        """Every route that is forwarded."""
        seated: list[BaseRoute] = [Route(path, _Asgi(self.serve), methods=["POST"]) for path in SEATED]
        return seated + [
            Route(path, _Asgi(self.serve), methods=[method]) for method, paths in UNSEATED.items() for path in paths
        ]

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward one request, until its response is over or its client has disconnected."""
        body = await _body(receive)
        if body is None:
            return
        context = REQUEST_CONTEXT.get()
        forwarding = asyncio.ensure_future(self._forward(scope, body, context, send))
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

    async def _forward(self, scope: Scope, body: bytes, context: RequestContext | None, send: Send) -> None:
        path, started, streams, sent = scope["path"], False, False, b""
        try:
            async with aclosing(self._pieces(scope, body, context)) as pieces:
                async for piece in pieces:
                    if not started:
                        started, streams = True, _streams(piece.headers)
                        await send(_start(piece))
                    sent = piece.body or sent
                    await send({"type": "http.response.body", "body": piece.body, "more_body": not piece.last})
        except TooWideError as wide:
            raise BadRequest(HTTPStatus.BAD_REQUEST, str(wide), "invalid_parameter") from None
        except NoInstanceError:
            away = Refused(Reason.NOT_READY, _ANOTHER_TRY_S)
            body = error_body(path, away.status, str(away), away.reason)
            await answer(send, away.status, body, refusal_headers(away, None))
        except (InstanceLostError, EngineGoneError):
            lost = BadRequest(HTTPStatus.BAD_GATEWAY, _LOST, "instance_lost")
            if not started:
                await answer(send, lost.status, lost.body(path), lost.headers)
            elif streams:
                event = error_event(path, lost.status, lost.message, lost.code)
                between = b"" if sent.endswith((b"\n\n", b"\r\n\r\n")) else b"\n\n"  # an event may have been cut
                await send({"type": "http.response.body", "body": between + event, "more_body": False})
            else:  # without its end the server closes the connection, which is all that can be said now
                log.warning("an instance was lost in the middle of an answer, which ends there")

    def _pieces(self, scope: Scope, body: bytes, context: RequestContext | None) -> AsyncGenerator[Piece, None]:
        path, query = scope["path"], scope["query_string"].decode("latin-1")
        request = Forwarded(
            scope["method"],
            (scope.get("raw_path") or path.encode()).decode("latin-1") + (f"?{query}" if query else ""),
            request_headers(_headers(scope), _own_headers(context)),
            body,
            None if context is None else context.asked_tokens,
        )
        if path not in SEATED or context is None:
            return self.engine().fetch(request)
        context.prompt_bytes = max(context.prompt_bytes, len(body))
        if not (_is_json(scope) or path.startswith("/v1/audio/")):
            return _refused("the body must be application/json", "content-type")
        if context.detached:
            return _refused("background responses are kept by one instance, and cannot be asked for here", "background")
        pooled = path.endswith(_ONE_SEAT)
        sequences = 1 if pooled else max(1, context.prompts * context.answers)
        context.prompts = 1  # all of them are one call of the engine
        most = None if pooled else context.max_tokens
        timed = context.streams and not pooled and sequences == 1
        params = CallParams(sequences, most, context.streams or pooled, timed)
        demand = Demand(context.prompt_tokens + (most or 0), context.prompt_tokens, context.prefix, sequences)
        if context.ranked:
            request = request.without_priority()
        return self.engine().generate(request, params, uuid.uuid4().hex, demand=demand)


#: The advice of a refusal while no instance is healthy: they are asked every second.
_ANOTHER_TRY_S: Final = 1
_LOST: Final = "The instances that worked on this request were lost. Try again."


@dataclass(frozen=True, slots=True)
class _Asgi:
    """An endpoint that Starlette takes for an ASGI application, since it is no function."""

    app: Callable[[Scope, Receive, Send], Any]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.app(scope, receive, send)
        except BadRequest as bad:
            await answer(send, bad.status, bad.body(scope["path"]), bad.headers)


def _is_json(scope: Scope) -> bool:
    kind = next((value for name, value in scope["headers"] if name == b"content-type"), b"application/json")
    media = kind.partition(b";")[0].strip().lower()
    return bool(media == b"application/json" or media.endswith(b"+json"))


async def _refused(text: str, param: str) -> AsyncGenerator[Piece, None]:
    raise BadRequest(HTTPStatus.BAD_REQUEST, text, "unsupported", param=param)
    yield Piece(b"")  # what makes this a generator


async def _body(receive: Receive) -> bytes | None:
    """The whole body; None where its client left before, or was answered."""
    parts = []
    while (message := await receive())["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)
    return None


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _headers(scope: Scope) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]


def _own_headers(context: RequestContext | None) -> Headers:
    """What this server knows better than the client: class and tenant, for an instance that trusts it."""
    if context is None:
        return ()
    known = (("x-headway-class", context.class_name), ("x-headway-tenant", context.tenant))
    return tuple((name, value) for name, value in known if value)


def _start(piece: Piece) -> dict[str, Any]:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in piece.headers]
    return {"type": "http.response.start", "status": piece.status, "headers": headers}


def _streams(headers: Headers) -> bool:
    return any(name == "content-type" and value.startswith("text/event-stream") for name, value in headers)
