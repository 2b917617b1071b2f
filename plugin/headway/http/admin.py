"""The admin API under ``/headway/v1/`` and the two probes beside it.

The routes are those of ``headway.api.routes``, the bodies those of ``headway.api.schema``. The API is off (404) unless
a token is configured. The token is checked before anything of the request is read. Orders carry the revision they were
decided on in ``If-Match`` (RFC 9110, section 13.1.1): 428 without it, 412 when it is stale. Errors are problem details
(RFC 9457); ``errors`` lists each by itself: where, the message, the wrong value.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from http import HTTPStatus

from pydantic import BaseModel
from starlette import routing
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headway.api import openapi, schema
from headway.api import routes as api
from headway.api.routes import Role, Route
from headway.audit import Caller
from headway.errors import (
    LimitOrderError,
    StaleRevisionError,
    UnknownPresetError,
    UnknownRungError,
    UnusablePresetError,
)
from headway.http.auth import Tokens
from headway.http.orders import AnOrder, read_order
from headway.http.problem import ProblemError, problem_response
from headway.operator import Control, Switched
from headway.release import version
from headway.supervision import CannotReplaceError, NotNowError
from headway_policies.preset import Issue, shown

MAX_QUERY_BYTES = 1000

Handler = Callable[[Control, Request, Caller], Awaitable[Response]]


def routes(control: Callable[[], Control], tokens: Tokens) -> list[routing.BaseRoute]:
    """All routes; ``control`` gives the control room once the engine is there."""

    def endpoint(route: Route) -> Callable[[Request], Awaitable[Response]]:
        handler, needs = HANDLERS[route.name], route.role

        async def answer(request: Request) -> Response:
            try:
                caller = Caller() if needs is None else _identify(request, tokens, needs, control())
                return await handler(control(), request, caller)
            except ProblemError as problem:
                return problem_response(problem)

        return answer

    async def healthz(request: Request) -> Response:
        """Without the control room, which is not there before the engine is."""
        return _answer(schema.Liveness(alive=True))

    return [
        routing.Route(route.path, healthz if route is api.HEALTHZ else endpoint(route), methods=[route.method])
        for route in api.TABLE
    ]


def _identify(request: Request, tokens: Tokens, needs: Role, control: Control) -> Caller:
    if not tokens:
        advice = "The admin API is off. Set HEADWAY_ADMIN_TOKEN or HEADWAY_ADMIN_TOKEN_FILE and start again."
        raise ProblemError(HTTPStatus.NOT_FOUND, advice)
    address = request.client.host if request.client else "-"
    action = _action(request)
    role = tokens.role(request.headers.get("authorization"))
    if role is None:
        control.refused(Caller(address=address), action, "no token, or a wrong one")
        header = {"WWW-Authenticate": 'Bearer realm="headway"'}
        raise ProblemError(HTTPStatus.UNAUTHORIZED, "A valid token is needed: Authorization: Bearer TOKEN.", header)
    if needs is Role.OPERATOR and role is not Role.OPERATOR:
        control.refused(Caller(actor=str(role), role=str(role), address=address), action, "the token may only read")
        raise ProblemError(HTTPStatus.FORBIDDEN, "This token may read but not change anything.")
    if len(request.scope["query_string"]) > MAX_QUERY_BYTES:
        raise ProblemError(HTTPStatus.REQUEST_URI_TOO_LONG, f"The query may have {MAX_QUERY_BYTES} bytes at most.")
    return Caller(actor=str(role), role=str(role), address=address)


def _action(request: Request) -> str:
    """The method and the path of a known route, without host and query."""
    return f"{request.method} {request.scope['path']}"


async def _readyz(control: Control, request: Request, caller: Caller) -> Response:
    reasons = control.not_ready()
    answer = schema.Readiness(ready=not reasons, reasons=reasons)
    if reasons:
        return _answer(answer, HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "1"})
    return _answer(answer)


async def _status(control: Control, request: Request, caller: Caller) -> Response:
    return _answer(schema.Status.model_validate(control.status()))


async def _desk(control: Control, request: Request, caller: Caller) -> Response:
    return _answer(schema.DeskDump(control.gateway.gate.dump()))


async def _presets(control: Control, request: Request, caller: Caller) -> Response:
    listed = [
        schema.PresetEntry(
            name=one.preset.name,
            description=one.preset.description,
            source=one.source,
            settings=one.preset.settings(),
        )
        for one in control.catalogue
    ]
    current = schema.PresetInForce(name=control.preset.name, revision=control.revision)
    return _answer(schema.PresetList(current=current, presets=listed))


async def _preset(control: Control, request: Request, caller: Caller) -> Response:
    preset = control.preset
    answer = schema.CurrentPreset(
        name=preset.name, revision=control.revision, description=preset.description, settings=preset.settings()
    )
    return _answer(answer, headers=_etag(control.revision))


async def _switch(control: Control, request: Request, caller: Caller) -> Response:
    wanted, caller = await _order(control, request, caller, schema.SwitchOrder)
    expected_revision = _if_match(control, request, caller)
    try:
        done = await control.switch(
            wanted.name, expected_revision=expected_revision, caller=caller, reason=wanted.reason
        )
    except StaleRevisionError as error:
        raise ProblemError(HTTPStatus.PRECONDITION_FAILED, f"{error}.", _etag(error.current)) from None
    except UnusablePresetError as error:
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.", errors=error.issues) from None
    except UnknownPresetError as error:
        unknown = Issue("name", str(error), shown(wanted.name))
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.", errors=[unknown]) from None
    return _switched(done)


async def _order_limit(control: Control, request: Request, caller: Caller) -> Response:
    wanted, caller = await _order(control, request, caller, schema.LimitOrder)
    expected_revision = _if_match(control, request, caller)
    try:
        done = await control.order_limit(
            wanted.seats,
            window_ms=wanted.window_ms,
            expires_s=wanted.expires_s,
            expected_revision=expected_revision,
            caller=caller,
            reason=wanted.reason,
        )
    except StaleRevisionError as error:
        raise ProblemError(HTTPStatus.PRECONDITION_FAILED, f"{error}.", _etag(error.current)) from None
    except UnusablePresetError as error:
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.", errors=error.issues) from None
    except LimitOrderError as error:
        wrong = Issue("seats", str(error), shown(wanted.seats))
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.", errors=[wrong]) from None
    return _switched(done)


def _switched(done: Switched) -> Response:
    """A change of the preset or its limit, with the new revision."""
    changed = [schema.SettingChange(setting=one.setting, before=one.before, after=one.after) for one in done.changes]
    answer = schema.Switched(
        name=done.preset.name,
        revision=done.revision,
        previous=done.previous,
        changes=changed,
        engine_limit_confirmed=done.engine_limit_confirmed,
    )
    return _answer(answer, headers=_etag(done.revision))


async def _fallback(control: Control, request: Request, caller: Caller) -> Response:
    return _answer(_fallback_state(control))


async def _order_fallback(control: Control, request: Request, caller: Caller) -> Response:
    """An order for a rung is the same whatever was in force before: it needs no revision."""
    wanted, caller = await _order(control, request, caller, schema.FallbackOrder)
    try:
        control.order_fallback(wanted.rung, caller=caller, reason=wanted.reason)
    except UnknownRungError as error:
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.") from None
    return _answer(_fallback_state(control))


async def _recycle(control: Control, request: Request, caller: Caller) -> Response:
    wanted, caller = await _order(control, request, caller, schema.Order)
    try:
        control.recycle(caller, wanted.reason)
    except CannotReplaceError as error:
        raise ProblemError(HTTPStatus.NOT_IMPLEMENTED, f"{error}.") from None
    except NotNowError as error:
        raise ProblemError(HTTPStatus.CONFLICT, f"{error}.") from None
    taken = control.gateway.gate.desk.seats_taken
    return _answer(schema.RecycleAccepted(accepted=True, seats_taken=taken), api.RECYCLE.status)


async def _audit(control: Control, request: Request, caller: Caller) -> Response:
    asked = request.query_params.get("limit", str(api.DEFAULT_AUDIT_ENTRIES))
    digits = asked.isascii() and asked.isdecimal() and len(asked) <= 9
    if not digits or not 1 <= int(asked) <= api.MAX_AUDIT_ENTRIES:
        allowed = f"limit: a whole number from 1 to {api.MAX_AUDIT_ENTRIES} is needed"
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{allowed}.")
    return _answer(schema.AuditLog(entries=control.audit.entries(int(asked))))


async def _openapi(control: Control, request: Request, caller: Caller) -> Response:
    return JSONResponse(openapi.document(version()))


#: The handler of each route but ``healthz``, by the route's name.
HANDLERS: Mapping[str, Handler] = {
    "readyz": _readyz,
    "status": _status,
    "desk": _desk,
    "presets": _presets,
    "preset": _preset,
    "switch": _switch,
    "order_limit": _order_limit,
    "fallback": _fallback,
    "order_fallback": _order_fallback,
    "recycle": _recycle,
    "audit": _audit,
    "openapi": _openapi,
}


async def _order(control: Control, request: Request, caller: Caller, expected: type[AnOrder]) -> tuple[AnOrder, Caller]:
    """The order in the body, and its author. One that cannot be read is in the audit log as refused."""
    try:
        wanted = await read_order(request, expected)
    except ProblemError as problem:
        control.refused(caller, _action(request), problem.detail)
        raise
    return wanted, replace(caller, actor=wanted.actor or caller.actor)


def _if_match(control: Control, request: Request, caller: Caller) -> int | None:
    """The revision that the order was decided on; None for ``*``, which means whatever is in force."""
    value = request.headers.get("if-match", "").strip()
    if not value:
        advice = 'Send If-Match with the ETag of GET /headway/v1/preset, such as If-Match: "3".'
        control.refused(caller, _action(request), advice)
        raise ProblemError(HTTPStatus.PRECONDITION_REQUIRED, advice, _etag(control.revision))
    if value == "*":
        return None
    digits = re.fullmatch(r'"([1-9][0-9]{0,17})"', value)
    return int(digits[1]) if digits else -1


def _fallback_state(control: Control) -> schema.FallbackState:
    return schema.FallbackState.model_validate(control.fallback_controller.status())


def _etag(revision: int) -> dict[str, str]:
    return {"ETag": f'"{revision}"'}


def _answer(
    answer: BaseModel, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(answer.model_dump_json(), status, headers, media_type="application/json")
