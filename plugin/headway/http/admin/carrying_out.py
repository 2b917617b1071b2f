"""The steps of a command: it is read, checked, carried out, and recorded where it changed nothing.

A command may be sent again where its answer was lost. A command about the preset or its limit names the revision it was
decided on, which is stale once the first has changed it (412). A pause, a drain, a resume or a rung that is in force
already is 409 or changes nothing. A recycle or a warm-up is 409 while the first goes on, another later.
"""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from headway.api import schema
from headway.api.routes import Route
from headway.audit import Caller
from headway.http.admin.answers import COMMAND, Handler, action
from headway.http.admin.commands import parse_command, read_body
from headway.http.admin.problem import ProblemError
from headway.operator import Control
from headway_policies.preset import Issue


async def carry_out(
    control: Control, request: Request, caller: Caller, route: Route, handler: Handler, *, require_reason: bool
) -> Response:
    """The answer to a command; ``require_reason``: it must have a reason and a name. Raises ProblemError; a command
    that cannot be read is in the audit log as refused.
    """
    assert route.command is not None
    try:
        wanted = parse_command(await read_body(request), route.command)
        if require_reason and route.changes:
            _check_said(wanted)
    except ProblemError as problem:
        control.refused(caller, action(request), problem.detail)
        raise
    caller = replace(caller, actor=wanted.actor or caller.actor)
    request.scope[COMMAND] = wanted
    recorded = control.audit.recorded
    response = await handler(control, request, caller)
    if route.changes and control.audit.recorded == recorded:
        _record_no_op(control, request, caller, wanted.reason)
    return response


def _record_no_op(control: Control, request: Request, caller: Caller, reason: str) -> None:
    name, revision = control.preset.name, control.revision
    control.audit.no_op(caller, action(request), "nothing changed", preset=name, revision=revision, reason=reason)


def _check_said(wanted: schema.Command) -> None:
    """Raises ProblemError for a command without a reason or a name, with each as an error of its own."""
    missing = [name for name, text in (("reason", wanted.reason), ("actor", wanted.actor)) if not text.strip()]
    if missing:
        errors = [Issue(name, "this server wants one with every command") for name in missing]
        detail = f"{' and '.join(missing)}: this server wants both with every command."
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, detail, errors=errors)
