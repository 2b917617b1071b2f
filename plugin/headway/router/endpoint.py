"""The routes that are forwarded: each as it came, to the instance that the router chose.

What generates, embeds or scores takes a seat at the desk. What only reads a prompt or describes the model goes to any
healthy instance at once. What keeps state on one instance cannot be served by several, and has no route here.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from headway.admission import REQUEST_CONTEXT, RequestContext
from headway.api_errors import BadRequest
from headway.router.engine import InstancesEngine
from headway.router.forwarded import CallParams, Forwarded, Headers, Piece, media_type, request_headers
from headway.router.relay import Relay, headers_of, target_of
from headway_policies.routing import Demand

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
    """What is asked for on all forwarded routes; ``engine`` is the policy client of the router."""

    engine: Callable[[], InstancesEngine]

    def routes(self) -> list[BaseRoute]:
        """Every route that is forwarded."""
        relay = Relay(self.pieces)
        seated: list[BaseRoute] = [Route(path, relay, methods=["POST"]) for path in SEATED]
        return seated + [Route(path, relay, methods=[method]) for method, paths in UNSEATED.items() for path in paths]

    def pieces(self, scope: Scope, body: bytes) -> AsyncGenerator[Piece, None]:
        """The response to one request. Raises BadRequest."""
        path, context = scope["path"], REQUEST_CONTEXT.get()
        request = Forwarded(
            scope["method"],
            target_of(scope),
            request_headers(headers_of(scope), _own_headers(context)),
            body,
            None if context is None else context.asked_tokens,
        )
        if path not in SEATED or context is None:
            return self.engine().fetch(request)
        context.prompt_bytes = max(context.prompt_bytes, len(body))
        media = media_type(headers_of(scope)) or "application/json"
        if not (media == "application/json" or media.endswith("+json") or path.startswith("/v1/audio/")):
            raise _unsupported("the body must be application/json", "content-type")
        if context.detached:
            text = "background responses are kept by one instance, and cannot be asked for here"
            raise _unsupported(text, "background")
        pooled = path.endswith(_ONE_SEAT)
        sequences = 1 if pooled else max(1, context.prompts * context.answers)
        context.prompts = 1  # all of them are one call of the engine
        most = None if pooled else context.max_tokens
        timed = context.streams and not pooled and sequences == 1
        params = CallParams(sequences, most, context.streams or pooled, timed)
        demand = Demand(context.prompt_tokens + (most or 0), context.prompt_tokens, context.prefix, sequences)
        if context.ranked:
            request = request.unranked()
        return self.engine().generate(request, params, uuid.uuid4().hex, demand=demand)


def _unsupported(text: str, param: str) -> BadRequest:
    return BadRequest(HTTPStatus.BAD_REQUEST, text, "unsupported", param=param)


def _own_headers(context: RequestContext | None) -> Headers:
    """What this server knows better than the client: class and tenant, for an instance that trusts it."""
    if context is None:
        return ()
    known = (("x-headway-class", context.class_name), ("x-headway-tenant", context.tenant))
    return tuple((name, value) for name, value in known if value)
