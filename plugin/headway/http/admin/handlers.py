"""The admin API under ``/headway/v1/`` and the two probes beside it.

The routes are those of ``headway.api.routes``, the bodies those of ``headway.api.schema``. The API is off (404) unless
a token is configured. The caller is identified before the body is read (``callers``), and every command takes the
same steps (``carrying_out``). Errors are problem details (RFC 9457); ``errors`` lists each by itself: where,
the message, the wrong value.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from starlette import routing
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from headway.api import openapi, schema
from headway.api import routes as api
from headway.api.routes import Route
from headway.audit import Caller
from headway.errors import UnknownRungError
from headway.http.admin import forecasts, operations, preset_commands, usage
from headway.http.admin.answers import Handler, answer, command
from headway.http.admin.callers import Callers
from headway.http.admin.carrying_out import carry_out
from headway.http.admin.problem import ProblemError, problem_response
from headway.http.admin.tokens import Tokens
from headway.operator import Control
from headway.recorder import summarise, trace_lines
from headway.release import version

_KINDS = tuple(kind.value for kind in schema.AuditKind)


def routes(control: Callable[[], Control], tokens: Tokens, *, require_reason: bool = False) -> list[routing.BaseRoute]:
    """All routes; ``control`` returns the control room once the engine exists.

    ``require_reason``: a command must have a reason and a name.
    """
    callers = Callers(tokens)

    def endpoint(route: Route) -> Callable[[Request], Awaitable[Response]]:
        handler = HANDLERS[route.name]

        async def handle(request: Request) -> Response:
            try:
                caller = Caller() if route.role is None else callers.identify(request, route, control())
                if route.command is None:
                    return await handler(control(), request, caller)
                return await carry_out(control(), request, caller, route, handler, require_reason=require_reason)
            except ProblemError as problem:
                return problem_response(problem)

        return handle

    async def healthz(request: Request) -> Response:
        """Answer without the control room, which does not exist before the engine does."""
        return answer(schema.Liveness(alive=True))

    return [
        routing.Route(route.path, healthz if route is api.HEALTHZ else endpoint(route), methods=[route.method])
        for route in api.TABLE
    ]


async def _readyz(control: Control, request: Request, caller: Caller) -> Response:
    reasons = control.not_ready()
    found = schema.Readiness(ready=not reasons, reasons=reasons, notes=control.notes())
    if reasons:
        return answer(found, HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "1"})
    return answer(found)


async def _status(control: Control, request: Request, caller: Caller) -> Response:
    return answer(control.status())


async def _desk(control: Control, request: Request, caller: Caller) -> Response:
    return answer(schema.DeskDump(control.gateway.gate.dump()))


async def _traffic(control: Control, request: Request, caller: Caller) -> Response:
    return answer(await summarise(control.recording()))


async def _trace(control: Control, request: Request, caller: Caller) -> Response:
    headers = {"Content-Disposition": 'attachment; filename="traffic.csv"'}
    return StreamingResponse(trace_lines(control.recording()), headers=headers, media_type=api.TRACE.media)


async def _presets(control: Control, request: Request, caller: Caller) -> Response:
    listed = [
        schema.PresetEntry(
            name=entry.preset.name,
            description=entry.preset.description,
            source=entry.source,
            settings=entry.preset.settings(),
            warnings=control.warnings(entry.preset),
        )
        for entry in control.catalogue
    ]
    current = schema.PresetInForce(name=control.preset.name, revision=control.revision)
    return answer(schema.PresetList(current=current, presets=listed))


async def _fallback(control: Control, request: Request, caller: Caller) -> Response:
    return answer(control.fallback_controller.status())


async def _order_fallback(control: Control, request: Request, caller: Caller) -> Response:
    """A command for a rung is the same whatever was in force before: it needs no revision."""
    wanted = command(request, schema.FallbackCommand)
    try:
        control.order_fallback(wanted.rung, caller=caller, reason=wanted.reason)
    except UnknownRungError as error:
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.") from None
    return answer(control.fallback_controller.status())


async def _audit(control: Control, request: Request, caller: Caller) -> Response:
    asked = request.query_params.get("limit", str(api.DEFAULT_AUDIT_ENTRIES))
    digits = asked.isascii() and asked.isdecimal() and len(asked) <= 9
    if not digits or not 1 <= int(asked) <= api.MAX_AUDIT_ENTRIES:
        allowed = f"limit: a whole number from 1 to {api.MAX_AUDIT_ENTRIES} is needed"
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{allowed}.")
    kind = request.query_params.get("kind")
    if kind is not None and kind not in _KINDS:
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"kind: one of {', '.join(_KINDS)} is needed.")
    entries = control.audit.entries(int(asked), None if kind is None else schema.AuditKind(kind))
    return answer(schema.AuditLog(entries=entries))


async def _openapi(control: Control, request: Request, caller: Caller) -> Response:
    return JSONResponse(openapi.document(version()))


#: The handler of each route but ``healthz``, by the route's name.
HANDLERS: Mapping[str, Handler] = {
    "readyz": _readyz,
    "status": _status,
    "desk": _desk,
    "traffic": _traffic,
    "trace": _trace,
    "presets": _presets,
    **forecasts.HANDLERS,
    **preset_commands.HANDLERS,
    "fallback": _fallback,
    "order_fallback": _order_fallback,
    **operations.HANDLERS,
    "audit": _audit,
    **usage.HANDLERS,
    "openapi": _openapi,
}
