"""The way of an order: it is read, checked, named, carried out, and written down where it changed nothing.

A body is read before a key is looked at, because the key belongs to the whole order.
"""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from headway.api import schema
from headway.api.routes import IDEMPOTENCY_KEY, Route
from headway.audit import Caller
from headway.http.admin.answers import ORDER, Handler, action
from headway.http.admin.idempotency import IdempotencyKeys, digest_of, key_of
from headway.http.admin.orders import parse_order, read_body
from headway.http.admin.problem import ProblemError
from headway.http.admin.rules import AdminRules
from headway.operator import Control
from headway_policies.preset import Issue

_UNCHANGED = "nothing changed"
_REPEATED = f"repeated: answered as the first with its {IDEMPOTENCY_KEY}"


class Orders:
    """Carries out the orders of one server. Call it on the event loop's thread only."""

    def __init__(self, rules: AdminRules) -> None:
        self._rules = rules
        self._keys = IdempotencyKeys()

    async def carry_out(
        self, control: Control, request: Request, caller: Caller, route: Route, handler: Handler
    ) -> Response:
        """The answer to an order. Raises ProblemError; one that cannot be read is in the audit log as refused."""
        assert route.order is not None
        try:
            key = key_of(request) if route.changes else None
            body = await read_body(request)
            wanted = parse_order(body, route.order)
            if self._rules.require_reason and route.changes:
                _check_said(wanted)
        except ProblemError as problem:
            control.refused(caller, action(request), problem.detail)
            raise
        caller = replace(caller, actor=wanted.actor or caller.actor)
        request.scope[ORDER] = wanted
        if key is None:
            return await _act(control, request, caller, route, handler)
        now_s = control.gateway.gate.now_s()
        name, digest = (caller.token_id, key), digest_of(request, body)
        try:
            answered = self._keys.answered(name, digest, now_s)
        except ProblemError as problem:
            control.refused(caller, action(request), problem.detail)
            raise
        if answered is not None:
            _record_no_op(control, request, caller, _REPEATED)
            return answered
        return await self._keys.first(name, digest, now_s, lambda: _act(control, request, caller, route, handler))


async def _act(control: Control, request: Request, caller: Caller, route: Route, handler: Handler) -> Response:
    """The answer of the handler; an order that has left no trace in the audit log has changed nothing."""
    recorded = control.audit.recorded
    response = await handler(control, request, caller)
    if route.changes and control.audit.recorded == recorded:
        _record_no_op(control, request, caller, _UNCHANGED)
    return response


def _record_no_op(control: Control, request: Request, caller: Caller, result: str) -> None:
    name, revision, reason = control.preset.name, control.revision, request.scope[ORDER].reason
    control.audit.no_op(caller, action(request), result, preset=name, revision=revision, reason=reason)


def _check_said(wanted: schema.Order) -> None:
    """Raises ProblemError for an order without a reason or a name, with each as an error of its own."""
    missing = [name for name, text in (("reason", wanted.reason), ("actor", wanted.actor)) if not text.strip()]
    if missing:
        errors = [Issue(name, "this server wants one with every order") for name in missing]
        detail = f"{' and '.join(missing)}: this server wants both with every order."
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, detail, errors=errors)
