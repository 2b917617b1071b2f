"""The routes that are forwarded: each request as it came, to the instance that the router chose.

A request that generates, embeds or scores takes a seat at the desk. A request that only reads a prompt or describes the
model goes to any healthy instance at once. A request that keeps state on one instance cannot be served by several, and
has no route here.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from msgspec.structs import replace
from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from headway.admission import REQUEST_CONTEXT, RequestContext
from headway.api_errors import BadRequest
from headway.openai.asked import NOTHING
from headway.openai.routes import ROUTES, Seats, route_of
from headway.router.engine import InstancesEngine
from headway.router.forwarding.forwarded import CallParams, Forwarded, Headers, Piece, media_type, request_headers
from headway.router.forwarding.relay import Relay, headers_of, target_of
from headway_policies.routing import Demand

_SEATED: Final = frozenset({Seats.EACH, Seats.ONE})
#: Of engines other than vLLM.
_MODEL: Final = "/v1/models/{model:path}"


@dataclass(frozen=True, slots=True)
class ForwardEndpoint:
    """The endpoint of all forwarded routes; ``engine`` is the policy client of the router."""

    engine: Callable[[], InstancesEngine]

    def routes(self) -> list[BaseRoute]:
        """Every route that is forwarded."""
        relay = Relay(self.pieces)
        known = [route for route in ROUTES if route.seats is not Seats.NOT_FORWARDED]
        forwarded: list[BaseRoute] = [Route(route.path, relay, methods=route.methods) for route in known]
        return [*forwarded, Route(_MODEL, relay, methods=["GET"])]

    def pieces(self, scope: Scope, body: bytes) -> AsyncGenerator[Piece, None]:
        """The response to one request. Raises BadRequest."""
        route, context = route_of(scope), REQUEST_CONTEXT.get()
        request = Forwarded(
            scope["method"],
            target_of(scope),
            request_headers(headers_of(scope), _own_headers(context)),
            body,
            NOTHING if context is None else context.asked,
        )
        if route.seats not in _SEATED or context is None:
            return self.engine().fetch(request)
        media = media_type(headers_of(scope)) or "application/json"
        if not (media == "application/json" or media.endswith("+json") or route.form):
            raise _unsupported("the body must be application/json", "content-type")
        asked = context.asked
        if asked.detached:
            text = "background responses are kept by one instance, and cannot be asked for here"
            raise _unsupported(text, "background")
        pooled = route.seats is Seats.ONE
        sequences = 1 if pooled else asked.prompts * asked.answers
        most = None if pooled else context.max_tokens
        params = CallParams(sequences, most, asked.streams or pooled, asked.streams and not pooled and sequences == 1)
        demand = Demand(
            asked.prompt_tokens + (most or 0), asked.prompt_tokens, context.prefix, sequences, context.class_name or ""
        )
        # all prompts are one call of the engine; a form, which is not read, has bytes all the same
        context.asked = replace(asked, fields={}, prompts=1, prompt_bytes=len(body))
        return self.engine().generate(request.unranked(), params, uuid.uuid4().hex, demand=demand)


def _unsupported(text: str, param: str) -> BadRequest:
    return BadRequest(HTTPStatus.BAD_REQUEST, text, "unsupported", param=param)


def _own_headers(context: RequestContext | None) -> Headers:
    """The headers that this server sets: class and tenant, for an instance that trusts it."""
    if context is None:
        return ()
    known = (("x-headway-class", context.class_name), ("x-headway-tenant", context.tenant))
    return tuple((name, value) for name, value in known if value)
