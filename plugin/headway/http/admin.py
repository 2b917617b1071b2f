"""The admin API under ``/headway/v1/`` and the two probes beside it.

Off (404) unless a token is configured. The token is checked before anything of the request is read. Writes carry the
revision they were decided on in ``If-Match`` (RFC 9110, section 13.1.1): 428 without it, 412 when it is stale.
Errors are problem details (RFC 9457); ``errors`` lists each by itself: where, the message, the wrong value.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from headway.audit import Caller
from headway.errors import StaleRevisionError, UnknownPresetError, UnknownRungError, UnusablePresetError
from headway.http.auth import Role, Tokens
from headway.operator import Control, Switched
from headway.supervision import CannotReplaceError, NotNowError
from headway_policies.preset import Issue, shown

MAX_BODY_BYTES = 16 * 1024
#: How long an order may take to arrive, in all.
BODY_WITHIN_S = 10.0
MAX_QUERY_BYTES = 1000
_MAX_AUDIT_LINES = 500
_MOST_ERRORS = 10  # of one body; the keys in it are the client's own
_MOST_KEY_CHARS = 60

AnOrder = TypeVar("AnOrder", bound="Order")
Handler = Callable[[Control, Request, Caller], Awaitable[Response]]


class Problem(Exception):
    """An error answer: status, one sentence, headers that belong to it, and the single errors where there are some."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        headers: dict[str, str] | None = None,
        errors: Iterable[Issue] = (),
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.errors = status, detail, headers, tuple(errors)


class Order(BaseModel):
    """The body of any order: why, and who says so. What the caller calls itself stands in the audit beside its role."""

    model_config = ConfigDict(extra="forbid", strict=True)

    reason: str = Field(default="", max_length=400)
    actor: str = Field(default="", max_length=80)


class SwitchOrder(Order):
    """Put this preset in force."""

    name: str = Field(min_length=1, max_length=60)


class FallbackOrder(Order):
    """Put the fallback ladder on this rung; null lets it move by itself."""

    rung: str | None = Field(max_length=40)


def routes(control: Callable[[], Control], tokens: Tokens) -> list[BaseRoute]:
    """All routes; ``control`` gives the control room once the engine is there."""

    def guarded(handler: Handler, needs: Role) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                caller = _identify(request, tokens, needs, control())
                return await handler(control(), request, caller)
            except Problem as problem:
                return _problem(problem)

        return endpoint

    async def healthz(request: Request) -> Response:
        return JSONResponse({"alive": True})

    async def readyz(request: Request) -> Response:
        reasons = control().not_ready()
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        headers = {"Retry-After": "1"} if reasons else {}
        return JSONResponse({"ready": not reasons, "reasons": reasons}, status, headers)

    table: list[tuple[str, str, Handler, Role]] = [
        ("/headway/v1/status", "GET", _status, Role.VIEWER),
        ("/headway/v1/desk", "GET", _desk, Role.VIEWER),
        ("/headway/v1/presets", "GET", _presets, Role.VIEWER),
        ("/headway/v1/preset", "GET", _preset, Role.VIEWER),
        ("/headway/v1/preset", "PUT", _switch, Role.OPERATOR),
        ("/headway/v1/fallback", "GET", _fallback, Role.VIEWER),
        ("/headway/v1/fallback", "PUT", _order_fallback, Role.OPERATOR),
        ("/headway/v1/recycle", "POST", _recycle, Role.OPERATOR),
        ("/headway/v1/audit", "GET", _audit, Role.VIEWER),
    ]
    probes: list[BaseRoute] = [Route("/headway/healthz", healthz), Route("/headway/readyz", readyz)]
    return probes + [Route(path, guarded(handler, needs), methods=[method]) for path, method, handler, needs in table]


def _identify(request: Request, tokens: Tokens, needs: Role, control: Control) -> Caller:
    if not tokens:
        advice = "The admin API is off. Set HEADWAY_ADMIN_TOKEN or HEADWAY_ADMIN_TOKEN_FILE and start again."
        raise Problem(HTTPStatus.NOT_FOUND, advice)
    address = request.client.host if request.client else "-"
    action = _action(request)
    role = tokens.role(request.headers.get("authorization"))
    if role is None:
        control.refused(Caller(address=address), action, "no token, or a wrong one")
        header = {"WWW-Authenticate": 'Bearer realm="headway"'}
        raise Problem(HTTPStatus.UNAUTHORIZED, "A valid token is needed: Authorization: Bearer TOKEN.", header)
    if needs is Role.OPERATOR and role is not Role.OPERATOR:
        control.refused(Caller(actor=str(role), role=str(role), address=address), action, "the token may only read")
        raise Problem(HTTPStatus.FORBIDDEN, "This token may read but not change anything.")
    if len(request.scope["query_string"]) > MAX_QUERY_BYTES:
        raise Problem(HTTPStatus.REQUEST_URI_TOO_LONG, f"The query may have {MAX_QUERY_BYTES} bytes at most.")
    return Caller(actor=str(role), role=str(role), address=address)


def _action(request: Request) -> str:
    """What was asked, in words of ours: a route that is known, without host and query."""
    return f"{request.method} {request.scope['path']}"


async def _status(control: Control, request: Request, caller: Caller) -> Response:
    return JSONResponse(control.status())


async def _desk(control: Control, request: Request, caller: Caller) -> Response:
    return JSONResponse(control.gateway.gate.dump())


async def _presets(control: Control, request: Request, caller: Caller) -> Response:
    listed = [
        {
            "name": one.preset.name,
            "description": one.preset.description,
            "source": one.source,
            "settings": one.preset.settings(),
        }
        for one in control.catalogue
    ]
    return JSONResponse({"current": _current(control), "presets": listed})


async def _preset(control: Control, request: Request, caller: Caller) -> Response:
    preset = control.preset
    body = {**_current(control), "description": preset.description, "settings": preset.settings()}
    return JSONResponse(body, headers=_etag(control.revision))


async def _switch(control: Control, request: Request, caller: Caller) -> Response:
    wanted, caller = await _order(control, request, caller, SwitchOrder)
    expected_revision = _if_match(control, request, caller)
    try:
        done = await control.switch(
            wanted.name, expected_revision=expected_revision, caller=caller, reason=wanted.reason
        )
    except StaleRevisionError as error:
        raise Problem(HTTPStatus.PRECONDITION_FAILED, f"{error}.", _etag(error.current)) from None
    except UnusablePresetError as error:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.", errors=error.issues) from None
    except UnknownPresetError as error:
        unknown = Issue("name", str(error), shown(wanted.name))
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.", errors=[unknown]) from None
    return JSONResponse(_switched(done), headers=_etag(done.revision))


async def _fallback(control: Control, request: Request, caller: Caller) -> Response:
    return JSONResponse(control.fallback_controller.status())


async def _order_fallback(control: Control, request: Request, caller: Caller) -> Response:
    """The order says where to stand, whatever there was before: there is no revision to miss."""
    wanted, caller = await _order(control, request, caller, FallbackOrder)
    try:
        control.order_fallback(wanted.rung, caller=caller, reason=wanted.reason)
    except UnknownRungError as error:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.") from None
    return JSONResponse(control.fallback_controller.status())


async def _recycle(control: Control, request: Request, caller: Caller) -> Response:
    wanted, caller = await _order(control, request, caller, Order)
    try:
        control.recycle(caller, wanted.reason)
    except CannotReplaceError as error:
        raise Problem(HTTPStatus.NOT_IMPLEMENTED, f"{error}.") from None
    except NotNowError as error:
        raise Problem(HTTPStatus.CONFLICT, f"{error}.") from None
    return JSONResponse({"accepted": True, "running": control.gateway.gate.desk.seats_taken}, HTTPStatus.ACCEPTED)


async def _audit(control: Control, request: Request, caller: Caller) -> Response:
    asked = request.query_params.get("limit", "50")
    if not (asked.isascii() and asked.isdecimal()) or len(asked) > 9 or not 1 <= int(asked) <= _MAX_AUDIT_LINES:
        allowed = f"limit: a whole number from 1 to {_MAX_AUDIT_LINES} is needed"
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{allowed}.")
    return JSONResponse({"entries": control.audit.entries(int(asked))})


async def _order(control: Control, request: Request, caller: Caller, expected: type[AnOrder]) -> tuple[AnOrder, Caller]:
    """The order in the body, and who gave it. One that cannot be read is in the audit as refused."""
    try:
        wanted = _read_as(expected, await _body(request))
    except Problem as problem:
        control.refused(caller, _action(request), problem.detail)
        raise
    return wanted, replace(caller, actor=wanted.actor or caller.actor)


async def _body(request: Request) -> bytes:
    """All of it, within its bounds of bytes and time."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body must be application/json.")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    allowed = f"The body may have {MAX_BODY_BYTES} bytes at most."
                    raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, allowed)
    except ClientDisconnect:
        raise Problem(HTTPStatus.BAD_REQUEST, "The body ended early.") from None
    except TimeoutError:
        late = f"The body did not arrive within {BODY_WITHIN_S:.0f} s."
        raise Problem(HTTPStatus.REQUEST_TIMEOUT, late, {"Connection": "close"}) from None
    return bytes(body)


def _read_as(expected: type[AnOrder], body: bytes) -> AnOrder:
    try:
        return expected.model_validate(json.loads(body))
    except ValidationError as error:
        wrong = [_issue(one) for one in error.errors()[:_MOST_ERRORS]]
        detail = "; ".join(f"{one.where}: {one.message}" for one in wrong)
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{detail}.", errors=wrong) from None
    except (ValueError, RecursionError):
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "The body is not valid JSON.") from None


def _issue(detail: Mapping[str, Any]) -> Issue:
    """One error of a body. The value of a key that is unknown may be anything, a secret too: it is not repeated."""
    where = ".".join(str(part) for part in detail["loc"])[:_MOST_KEY_CHARS] or "body"
    value = None if detail["type"] in ("missing", "extra_forbidden") else shown(detail["input"])
    return Issue(where, detail["msg"], value)


def _if_match(control: Control, request: Request, caller: Caller) -> int | None:
    """The revision the caller decided on; None for ``*``, which means whatever is in force."""
    value = request.headers.get("if-match", "").strip()
    if not value:
        advice = 'Send If-Match with the ETag of GET /headway/v1/preset, such as If-Match: "3".'
        control.refused(caller, _action(request), advice)
        raise Problem(HTTPStatus.PRECONDITION_REQUIRED, advice, _etag(control.revision))
    if value == "*":
        return None
    digits = re.fullmatch(r'"([1-9][0-9]{0,17})"', value)
    return int(digits[1]) if digits else -1


def _current(control: Control) -> dict[str, Any]:
    return {"name": control.preset.name, "revision": control.revision}


def _switched(done: Switched) -> dict[str, Any]:
    return {
        "name": done.preset.name,
        "revision": done.revision,
        "previous": done.previous,
        "changes": [{"setting": one.setting, "before": one.before, "after": one.after} for one in done.changes],
        "engine_limit_confirmed": done.engine_limit_confirmed,
    }


def _etag(revision: int) -> dict[str, str]:
    return {"ETag": f'"{revision}"'}


def _problem(problem: Problem) -> Response:
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": problem.status.phrase,
        "status": int(problem.status),
        "detail": problem.detail,
    }
    if problem.errors:
        told = ("where", "message", "value")
        body["errors"] = [{name: getattr(one, name) for name in told} for one in problem.errors]
    return JSONResponse(body, problem.status, problem.headers, media_type="application/problem+json")
