"""The admin API under ``/headway/v1/`` and the two probes beside it.

The routes are those of ``headway.api.routes``, the bodies those of ``headway.api.schema``. The API is off (404) unless
a token is configured. The token is checked before anything of the request is read. Orders carry the revision they were
decided on in ``If-Match`` (RFC 9110, section 13.1.1): 428 without it, 412 when it is stale. Errors are problem details
(RFC 9457); ``errors`` lists each by itself: where, the message, the wrong value.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from http import HTTPStatus

from starlette import routing
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from headway.api import openapi, schema
from headway.api import routes as api
from headway.api.routes import Role, Route
from headway.audit import Caller
from headway.errors import (
    LimitOrderError,
    NoTrialError,
    StaleRevisionError,
    UnknownPresetError,
    UnknownRevisionError,
    UnknownRungError,
    UnusablePresetError,
)
from headway.forecast import BusyError, ForecastError
from headway.http.admin import operations
from headway.http.admin.answers import Handler, action, answer, order
from headway.http.admin.tokens import Tokens
from headway.http.admin.problem import ProblemError, problem_response
from headway.operator import Control, PresetTrial, Switched, unsaved_preset
from headway.recorder import summarise, trace_lines
from headway.release import version
from headway_policies import PresetError
from headway_policies.preset import Issue, shown
from headway_policies.trial import ALL, Condition, ConditionError, Served, TrialTerms

MAX_QUERY_BYTES = 1000


def routes(control: Callable[[], Control], tokens: Tokens) -> list[routing.BaseRoute]:
    """All routes; ``control`` gives the control room once the engine is there."""

    def endpoint(route: Route) -> Callable[[Request], Awaitable[Response]]:
        handler, needs = HANDLERS[route.name], route.role

        async def handle(request: Request) -> Response:
            try:
                caller = Caller() if needs is None else _identify(request, tokens, needs, control())
                return await handler(control(), request, caller)
            except ProblemError as problem:
                return problem_response(problem)

        return handle

    async def healthz(request: Request) -> Response:
        """Without the control room, which is not there before the engine is."""
        return answer(schema.Liveness(alive=True))

    return [
        routing.Route(route.path, healthz if route is api.HEALTHZ else endpoint(route), methods=[route.method])
        for route in api.TABLE
    ]


def _identify(request: Request, tokens: Tokens, needs: Role, control: Control) -> Caller:
    if not tokens:
        advice = "The admin API is off. Set HEADWAY_ADMIN_TOKEN or HEADWAY_ADMIN_TOKEN_FILE and start again."
        raise ProblemError(HTTPStatus.NOT_FOUND, advice)
    address = request.client.host if request.client else "-"
    attempt = action(request)
    role = tokens.role(request.headers.get("authorization"))
    if role is None:
        control.refused(Caller(address=address), attempt, "no token, or a wrong one")
        header = {"WWW-Authenticate": 'Bearer realm="headway"'}
        raise ProblemError(HTTPStatus.UNAUTHORIZED, "A valid token is needed: Authorization: Bearer TOKEN.", header)
    if needs is Role.OPERATOR and role is not Role.OPERATOR:
        control.refused(Caller(actor=str(role), role=str(role), address=address), attempt, "the token may only read")
        raise ProblemError(HTTPStatus.FORBIDDEN, "This token may read but not change anything.")
    if len(request.scope["query_string"]) > MAX_QUERY_BYTES:
        raise ProblemError(HTTPStatus.REQUEST_URI_TOO_LONG, f"The query may have {MAX_QUERY_BYTES} bytes at most.")
    return Caller(actor=str(role), role=str(role), address=address)


async def _readyz(control: Control, request: Request, caller: Caller) -> Response:
    reasons = control.not_ready()
    found = schema.Readiness(ready=not reasons, reasons=reasons)
    if reasons:
        return answer(found, HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "1"})
    return answer(found)


async def _status(control: Control, request: Request, caller: Caller) -> Response:
    return answer(schema.Status.model_validate(control.status()))


async def _desk(control: Control, request: Request, caller: Caller) -> Response:
    return answer(schema.DeskDump(control.gateway.gate.dump()))


async def _traffic(control: Control, request: Request, caller: Caller) -> Response:
    return answer(schema.Traffic.model_validate(asdict(await summarise(control.recording()))))


async def _trace(control: Control, request: Request, caller: Caller) -> Response:
    headers = {"Content-Disposition": 'attachment; filename="traffic.csv"'}
    return StreamingResponse(trace_lines(control.recording()), headers=headers, media_type=api.TRACE.media)


async def _presets(control: Control, request: Request, caller: Caller) -> Response:
    listed = [
        schema.PresetEntry(
            name=one.preset.name,
            description=one.preset.description,
            source=one.source,
            settings=one.preset.settings(),
            warnings=control.warnings(one.preset),
        )
        for one in control.catalogue
    ]
    current = schema.PresetInForce(name=control.preset.name, revision=control.revision)
    return answer(schema.PresetList(current=current, presets=listed))


async def _forecast(control: Control, request: Request, caller: Caller) -> Response:
    """A forecast changes nothing: it is in no audit log."""
    wanted, _ = await order(control, request, caller, schema.ForecastOrder)
    if wanted.presets is not None and wanted.toml is not None:
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "Give either presets or toml.")
    try:
        unsaved = None if wanted.toml is None else [unsaved_preset(wanted.toml)]
        presets = unsaved or control.forecasts.known(wanted.presets)
        found = await control.forecasts.of(presets, wanted.within_s, wanted.span_s)
    except PresetError as error:
        issues = error.issues or [Issue("toml", str(error))]
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.", errors=issues) from None
    except UnknownPresetError as error:
        unknown = [Issue("presets", str(error))]
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.", errors=unknown) from None
    except (BusyError, ForecastError) as error:
        raise ProblemError(HTTPStatus.CONFLICT, f"{error}.") from None
    model, done = found.model, found.forecasts
    body = schema.Forecast(
        current=found.current,
        span_s=done.span_s,
        requests=done.requests,
        seeds=done.seeds,
        engine=schema.EngineEstimate(
            base_s=model.base_s,
            sequence_s=model.seat_s,
            prompt_token_s=model.prefill_s,
            kv_tokens=model.kv_tokens,
            error_ratio=found.error_ratio,
        ),
        earlier=_forecast_errors(control),
        presets=[schema.PresetForecast.model_validate(asdict(one)) for one in done.presets],
    )
    return answer(body)


def _forecast_errors(control: Control) -> schema.ForecastErrors:
    errors = control.forecast_errors
    return schema.ForecastErrors(comparisons=len(errors.comparisons), error_ratio=errors.error_ratios())


async def _forecast_progress(control: Control, request: Request, caller: Caller) -> Response:
    done = control.forecasts.done
    return answer(schema.ForecastProgress(running=done is not None, done_ratio=done or 0.0))


async def _preset(control: Control, request: Request, caller: Caller) -> Response:
    preset = control.preset
    body = schema.CurrentPreset(
        name=preset.name, revision=control.revision, description=preset.description, settings=preset.settings()
    )
    return answer(body, headers=_etag(control.revision))


async def _switch(control: Control, request: Request, caller: Caller) -> Response:
    wanted, caller = await order(control, request, caller, schema.SwitchOrder)
    expected_revision = _if_match(control, request, caller)
    try:
        trial = _trial_terms(control, request, caller, wanted)
        with _refusals_of_a_change():
            done = await control.switch(
                wanted.name, expected_revision=expected_revision, caller=caller, reason=wanted.reason, trial=trial
            )
    except UnknownPresetError as error:
        unknown = Issue("name", str(error), shown(wanted.name))
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.", errors=[unknown]) from None
    return _switched(control, done)


def _trial_terms(control: Control, request: Request, caller: Caller, wanted: schema.SwitchOrder) -> TrialTerms:
    """What a switch is taken back by. Raises ProblemError with every condition that cannot be read."""
    class_names = next((one.preset.by_urgency() for one in control.catalogue if one.preset.name == wanted.name), None)
    found, wrong = list[Condition](), list[Issue]()
    for place, text in enumerate(wanted.revert_if or ()):
        try:
            found.append(Condition.parse(text, class_names))
        except ConditionError as error:
            wrong.append(Issue(f"revert_if.{place}", str(error), shown(text)))
    if wrong:
        detail = "; ".join(f"{one.where}: {one.message}" for one in wrong)
        control.refused(caller, action(request), detail)
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{detail}.", errors=wrong)
    return TrialTerms(wanted.revert_after_s, found)


async def _trial(control: Control, request: Request, caller: Caller) -> Response:
    last = control.trials.last
    return answer(schema.TrialReport(trial=None if last is None else _trial_state(control, last)))


async def _keep(control: Control, request: Request, caller: Caller) -> Response:
    wanted, caller = await order(control, request, caller, schema.Order)
    expected_revision = _if_match(control, request, caller)
    try:
        with _refusals_of_a_change():
            kept = control.keep(expected_revision=expected_revision, caller=caller, reason=wanted.reason)
    except NoTrialError as error:
        raise ProblemError(HTTPStatus.CONFLICT, f"{error}.") from None
    return answer(_trial_state(control, kept), headers=_etag(control.revision))


def _trial_state(control: Control, trial: PresetTrial) -> schema.Trial:
    result = trial.result
    now_s = control.gateway.gate.now_s() if trial.ended_s is None else trial.ended_s
    held_s = trial.trial.held_s(now_s)
    return schema.Trial(
        name=trial.preset.name,
        revision=trial.revision,
        back_to=trial.back_to.name,
        end=None if result is None else result.end,
        why="" if result is None else result.why,
        left_s=None if result is not None else max(0.0, trial.trial.ends_s - now_s),
        revert_after_s=trial.terms.revert_after_s,
        conditions=[
            schema.TrialCondition(
                text=str(one), reading=None if trial.now is None else one.reading(trial.now), held_s=held
            )
            for one, held in zip(trial.terms.revert_if, held_s, strict=True)
        ],
        before=_served(trial.before),
        now=None if trial.now is None else _served(trial.now),
    )


def _served(figures: Mapping[str, Served]) -> schema.ServedByClass:
    by_class = {name: schema.ServedFigures.model_validate(asdict(one)) for name, one in figures.items()}
    everything = by_class.pop(ALL, schema.ServedFigures())
    return schema.ServedByClass(all=everything, classes=by_class)


async def _undo(control: Control, request: Request, caller: Caller) -> Response:
    wanted, caller = await order(control, request, caller, schema.UndoOrder)
    expected_revision = _if_match(control, request, caller)
    try:
        with _refusals_of_a_change():
            done = await control.undo(
                wanted.revision, expected_revision=expected_revision, caller=caller, reason=wanted.reason
            )
    except UnknownRevisionError as error:
        unknown = Issue("revision", str(error), shown(wanted.revision))
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.", errors=[unknown]) from None
    return _switched(control, done)


async def _order_limit(control: Control, request: Request, caller: Caller) -> Response:
    wanted, caller = await order(control, request, caller, schema.LimitOrder)
    expected_revision = _if_match(control, request, caller)
    try:
        with _refusals_of_a_change():
            done = await control.order_limit(
                wanted.seats,
                window_ms=wanted.window_ms,
                expires_s=wanted.expires_s,
                expected_revision=expected_revision,
                caller=caller,
                reason=wanted.reason,
            )
    except LimitOrderError as error:
        wrong = Issue("seats", str(error), shown(wanted.seats))
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.", errors=[wrong]) from None
    return _switched(control, done)


@contextmanager
def _refusals_of_a_change() -> Iterator[None]:
    """Why any change of the preset may be refused, as problems."""
    try:
        yield
    except StaleRevisionError as error:
        raise ProblemError(HTTPStatus.PRECONDITION_FAILED, f"{error}.", _etag(error.current)) from None
    except UnusablePresetError as error:
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.", errors=error.issues) from None


def _switched(control: Control, done: Switched) -> Response:
    """A change of the preset or its limit, with the new revision."""
    changed = [schema.SettingChange(setting=one.setting, before=one.before, after=one.after) for one in done.changes]
    body = schema.Switched(
        name=done.preset.name,
        revision=done.revision,
        previous=done.previous,
        changes=changed,
        engine_limit_confirmed=done.engine_limit_confirmed,
        warnings=list(done.warnings),
        trial=None if done.trial is None else _trial_state(control, done.trial),
    )
    return answer(body, headers=_etag(done.revision))


async def _fallback(control: Control, request: Request, caller: Caller) -> Response:
    return answer(_fallback_state(control))


async def _order_fallback(control: Control, request: Request, caller: Caller) -> Response:
    """An order for a rung is the same whatever was in force before: it needs no revision."""
    wanted, caller = await order(control, request, caller, schema.FallbackOrder)
    try:
        control.order_fallback(wanted.rung, caller=caller, reason=wanted.reason)
    except UnknownRungError as error:
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.") from None
    return answer(_fallback_state(control))


async def _audit(control: Control, request: Request, caller: Caller) -> Response:
    asked = request.query_params.get("limit", str(api.DEFAULT_AUDIT_ENTRIES))
    digits = asked.isascii() and asked.isdecimal() and len(asked) <= 9
    if not digits or not 1 <= int(asked) <= api.MAX_AUDIT_ENTRIES:
        allowed = f"limit: a whole number from 1 to {api.MAX_AUDIT_ENTRIES} is needed"
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{allowed}.")
    return answer(schema.AuditLog(entries=control.audit.entries(int(asked))))


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
    "forecast": _forecast,
    "forecast_progress": _forecast_progress,
    "preset": _preset,
    "switch": _switch,
    "undo": _undo,
    "trial": _trial,
    "keep": _keep,
    "order_limit": _order_limit,
    "fallback": _fallback,
    "order_fallback": _order_fallback,
    **operations.HANDLERS,
    "audit": _audit,
    "openapi": _openapi,
}


def _if_match(control: Control, request: Request, caller: Caller) -> int | None:
    """The revision that the order was decided on; None for ``*``, which means whatever is in force."""
    value = request.headers.get("if-match", "").strip()
    if not value:
        advice = 'Send If-Match with the ETag of GET /headway/v1/preset, such as If-Match: "3".'
        control.refused(caller, action(request), advice)
        raise ProblemError(HTTPStatus.PRECONDITION_REQUIRED, advice, _etag(control.revision))
    if value == "*":
        return None
    digits = re.fullmatch(r'"([1-9][0-9]{0,17})"', value)
    return int(digits[1]) if digits else -1


def _fallback_state(control: Control) -> schema.FallbackState:
    return schema.FallbackState.model_validate(control.fallback_controller.status())


def _etag(revision: int) -> dict[str, str]:
    return {"ETag": f'"{revision}"'}
