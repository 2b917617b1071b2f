"""The handlers of what is in force: the preset, its trial, and the commands that change them.

A command carries the revision that it was decided on in ``If-Match`` (RFC 9110, section 13.1.1): 428 without it, 412
when it is stale.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from headway.api import schema
from headway.audit import Caller
from headway.errors import (
    LimitCommandError,
    NoTrialError,
    StaleRevisionError,
    UnknownPresetError,
    UnknownRevisionError,
    UnusablePresetError,
)
from headway.http.admin.answers import Handler, action, answer, command
from headway.http.admin.problem import ProblemError
from headway.operator import Control
from headway_policies.preset import Issue, shown
from headway_policies.trial import Condition, ConditionError, TrialTerms, read_condition


async def _preset(control: Control, request: Request, caller: Caller) -> Response:
    preset = control.preset
    body = schema.CurrentPreset(
        name=preset.name, revision=control.revision, description=preset.description, settings=preset.settings()
    )
    return answer(body, headers=_etag(control.revision))


async def _switch(control: Control, request: Request, caller: Caller) -> Response:
    wanted = command(request, schema.SwitchCommand)
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
    return _changed(done)


def _trial_terms(control: Control, request: Request, caller: Caller, wanted: schema.SwitchCommand) -> TrialTerms:
    """The terms that revert a switch. Raises ProblemError with every condition that cannot be read."""
    class_names = next(
        (entry.preset.by_urgency() for entry in control.catalogue if entry.preset.name == wanted.name), None
    )
    found, wrong = list[Condition](), list[Issue]()
    for place, text in enumerate(wanted.revert_if or ()):
        try:
            found.append(read_condition(text, class_names, wanted.revert_after_s))
        except ConditionError as error:
            wrong.append(Issue(f"revert_if.{place}", str(error), shown(text)))
    if wrong:
        detail = "; ".join(f"{issue.where}: {issue.message}" for issue in wrong)
        control.refused(caller, action(request), detail)
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{detail}.", errors=wrong)
    return TrialTerms(wanted.revert_after_s, found)


async def _trial(control: Control, request: Request, caller: Caller) -> Response:
    last = control.trials.last
    return answer(schema.TrialReport(trial=None if last is None else control.trials.report(last)))


async def _keep(control: Control, request: Request, caller: Caller) -> Response:
    wanted = command(request, schema.Command)
    expected_revision = _if_match(control, request, caller)
    try:
        with _refusals_of_a_change():
            kept = control.keep(expected_revision=expected_revision, caller=caller, reason=wanted.reason)
    except NoTrialError as error:
        raise ProblemError(HTTPStatus.CONFLICT, f"{error}.") from None
    return answer(kept, headers=_etag(control.revision))


async def _undo(control: Control, request: Request, caller: Caller) -> Response:
    wanted = command(request, schema.UndoCommand)
    expected_revision = _if_match(control, request, caller)
    try:
        with _refusals_of_a_change():
            done = await control.undo(
                wanted.revision, expected_revision=expected_revision, caller=caller, reason=wanted.reason
            )
    except UnknownRevisionError as error:
        unknown = Issue("revision", str(error), shown(wanted.revision))
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.", errors=[unknown]) from None
    return _changed(done)


async def _order_limit(control: Control, request: Request, caller: Caller) -> Response:
    wanted = command(request, schema.LimitCommand)
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
    except LimitCommandError as error:
        wrong = Issue("seats", str(error), shown(wanted.seats))
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.", errors=[wrong]) from None
    return _changed(done)


@contextmanager
def _refusals_of_a_change() -> Iterator[None]:
    """The problems for which any change of the preset may be refused."""
    try:
        yield
    except StaleRevisionError as error:
        raise ProblemError(HTTPStatus.PRECONDITION_FAILED, f"{error}.", _etag(error.current)) from None
    except UnusablePresetError as error:
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.", errors=error.issues) from None


def _changed(done: schema.Switched) -> Response:
    """A change of the preset or its limit, with the new revision."""
    return answer(done, headers=_etag(done.revision))


def _if_match(control: Control, request: Request, caller: Caller) -> int | None:
    """The revision that the command was decided on; None for ``*``, which means any revision."""
    value = request.headers.get("if-match", "").strip()
    if not value:
        advice = 'Send If-Match with the ETag of GET /headway/v1/preset, such as If-Match: "3".'
        control.refused(caller, action(request), advice)
        raise ProblemError(HTTPStatus.PRECONDITION_REQUIRED, advice, _etag(control.revision))
    if value == "*":
        return None
    digits = re.fullmatch(r'"([1-9][0-9]{0,17})"', value)
    return int(digits[1]) if digits else -1


def _etag(revision: int) -> dict[str, str]:
    return {"ETag": f'"{revision}"'}


#: The handler of each of these routes, by the route's name.
HANDLERS: Mapping[str, Handler] = {
    "preset": _preset,
    "switch": _switch,
    "undo": _undo,
    "trial": _trial,
    "keep": _keep,
    "order_limit": _order_limit,
}
