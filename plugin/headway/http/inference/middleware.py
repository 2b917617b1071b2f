"""The admission middleware: pure ASGI, around every POST that may reach the engine.

    1. read       class, tenant, time-outs and size from headers and body, which RequestLimits has bounded
    2. check      the caps, the operator's own validator, and the rates of the tenant
    3. hand over  the RequestContext travels in a context variable to the engine calls of this request
    4. defer      the response start is held until the first token or a refusal, so that a refusal is a true
                  429/503/504 with Retry-After, for a stream as well (``deferred_response``)
    5. settle     the permit, the charge of the tenant and the span, once the last byte is sent, the client has
                  disconnected, or the handler has failed

Headway's own routes and token counting pass unchanged; each engine call of a websocket is a request. A refusal after
the first byte of an event stream becomes one error event. When a request is aborted, its handler has about a second to
send that event and to return (``DeferredResponse.limit``). After that the middleware cancels the handler, and sends the
event if it is still missing.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from msgspec.structs import replace
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.admission import REQUEST_CONTEXT, RequestContext
from headway.api_errors import BadRequest, answer
from headway.fallback import FallbackController, FallbackTarget
from headway.http.access.identity import SENDER, identity_of
from headway.http.access.route_table import plain_path
from headway.http.inference.deferred_response import DeferredResponse
from headway.http.inference.fallback_route import FallbackRoute
from headway.http.inference.request_class import give_least_urgent, known_to_vllm
from headway.http.inference.request_info import read_request_info
from headway.http.inference.request_rules import RequestRules
from headway.http.inference.retries import Retries
from headway.http.inference.tenant_charge import TenantCharges
from headway.http.inference.validator import CheckedAnswer
from headway.http.limits import BODY, is_json, whole_body
from headway.openai.asked import Asked
from headway.openai.fields import written
from headway.openai.routes import route_of
from headway.tracing import QueueSpans
from headway_policies import Preset

#: Where a request of this process has a function that is given its context.
ON_CONTEXT: Final = "headway.on_context"
_CANCELS: Final = re.compile(r"/responses/[^/]+/cancel$")


@dataclass(frozen=True, slots=True)
class AdmissionMiddleware:
    """ASGI middleware.

    ``preset`` returns the preset in force, ``fallback_controller`` has the other model, ``spans`` exports the waits.
    ``truncated`` counts the responses that began and had no end although their client stayed, by class. ``forwards``:
    the application builds a new body from the parsed fields (``router``); otherwise the fields are dropped before it.
    """

    app: ASGIApp
    preset: Callable[[], Preset]
    queue_full_status: HTTPStatus = HTTPStatus.TOO_MANY_REQUESTS
    fallback_controller: Callable[[], FallbackController] | None = None
    rules: RequestRules = field(default_factory=RequestRules)
    charges: TenantCharges = field(default_factory=TenantCharges)
    retries: Retries = field(default_factory=Retries)
    spans: QueueSpans | None = None
    truncated: Counter[str] = field(default_factory=Counter)
    forwards: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "websocket":
            await self._talk(scope, receive, send)
            return
        if scope["type"] != "http" or scope["method"] != "POST" or _never_generates(scope):
            await self.app(scope, receive, send)
            return
        headers, client, path = _headers(scope), receive, scope["path"]
        identity, preset = identity_of(scope), self.preset()
        try:
            message = await whole_body(receive) if is_json(headers.get("content-type")) else None
            body = message.get("body") if message else None
            context = read_request_info(headers, route_of(scope), body, preset, identity, self.rules)
            if self.rules.validator is not None:
                await self.rules.validator.check(path, body, context)
            charge = None if _is_over(message) else self.charges.charge(identity, context)
        except BadRequest as bad:
            await answer(send, bad.status, bad.body(path), bad.headers)
            return
        if charge is not None and charge.lowers:
            give_least_urgent(context, preset)
        if ON_CONTEXT in scope:
            scope[ON_CONTEXT](context)
        if BODY in scope:
            context.on_entered = scope[BODY].release  # from then on the gate counts its bytes
        fallback = self._fallback_route(context, scope, headers, body, client, send)
        retries = self.retries if self.retries.read(headers, context) else None  # None: a first try
        response = DeferredResponse(context, path, send, self.queue_full_status, fallback, retries, charge)
        # vLLM refuses the tier "fast": it gets the one that means the same
        fields = context.asked.fields if context.service_tier is None else known_to_vllm(context.asked.fields)
        if message is not None and fields is not context.asked.fields:
            _rewrite(scope, message, written(fields))
        context.asked = replace(context.asked, fields=fields if self.forwards else {}, sampling={})
        receive, message = response.watched(receive, message), None
        body, fields = None, {}  # only the application keeps the body, and a fallback route that may forward it
        try:
            if fallback is None or not await fallback.take():
                await self._serve(context, scope, receive, response)
        finally:
            if charge is not None:
                charge.settle(context, response.ending(crashed=False))
            if self.spans is not None:
                self.spans.report(context)

    async def _talk(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a websocket: each of its engine calls is a request of its tenant, in the default class."""
        identity = identity_of(scope)
        if identity is None:
            await self.app(scope, receive, send)
            return
        entitlement, key = identity.entitlement, identity.key_id or ""
        asked = Asked(detached=True)
        context = RequestContext(tenant=identity.tenant, asked=asked, share=entitlement.share, key=key)
        token = REQUEST_CONTEXT.set(context)
        try:
            await self.app(scope, receive, send)
        finally:
            REQUEST_CONTEXT.reset(token)

    def _fallback_route(
        self,
        context: RequestContext,
        scope: Scope,
        headers: Mapping[str, str],
        body: bytes | None,
        receive: Receive,
        send: Send,
    ) -> FallbackRoute | None:
        """The route to another model or a fixed reply, where one is configured. A line of a batch has none: it comes
        again until the batch is over.
        """
        controller = None if self.fallback_controller is None or SENDER in scope else self.fallback_controller()
        if controller is None or not isinstance(controller.other_model, FallbackTarget):
            return None
        return FallbackRoute(controller, controller.other_model, context, scope["path"], headers, body, receive, send)

    async def _serve(self, context: RequestContext, scope: Scope, receive: Receive, response: DeferredResponse) -> None:
        token, crashed, cancelled = REQUEST_CONTEXT.set(context), False, True
        check, send = self.rules.result_check, response.send
        if check is not None:
            send = CheckedAnswer(check, scope["path"], context, send).send
        try:
            async with asyncio.timeout(None) as cap:
                context.on_given_up = lambda: response.limit(cap)
                try:
                    await self.app(scope, receive, send)
                    await response.finish()
                finally:
                    response.limit(None)
                    context.on_given_up = None
                    if context.permit is not None:
                        context.permit.on_abort = None
            cancelled = False
        except Exception:
            crashed, cancelled = True, False
            if not await response.finish() and not (cap.expired() and response.started):
                raise
        finally:
            REQUEST_CONTEXT.reset(token)
            if response.truncated and not cancelled:
                self.truncated[context.class_name or ""] += 1
            if context.permit is not None:
                context.permit.leave(response.ending(crashed=crashed))


def _headers(scope: Scope) -> dict[str, str]:
    """All headers, decoded once; of a repeated header the first counts."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}


def _never_generates(scope: Scope) -> bool:
    """Whether the path is Headway's own, counts tokens (``Route.unread``), or ends a response. A path that is not plain
    is none of these.
    """
    path = plain_path(scope)
    if path is None:
        return False
    return path.startswith("/headway/") or route_of(scope).unread or _CANCELS.search(path) is not None


def _is_over(message: Message | None) -> bool:
    """Whether there is no whole body: the client has left, or the body was refused."""
    return message is not None and message["type"] != "http.request"


def _rewrite(scope: Scope, message: Message, body: bytes) -> None:
    """Change the body that the application gets, and the length in its headers."""
    message["body"] = body
    others = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
    scope["headers"] = [*others, (b"content-length", str(len(body)).encode())]
