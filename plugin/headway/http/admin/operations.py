"""The handlers of the commands beside a preset: pause, drain, resume, warm-up, recycle and silences.

A command that is carried out already, or cannot be now, is 409; one that this server cannot carry out at all is 501.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from headway.api import routes as api
from headway.api import schema
from headway.audit import Caller
from headway.errors import CommandConflictError, NoWarmupError
from headway.http.admin.answers import Handler, answer, command
from headway.http.admin.problem import ProblemError
from headway.operator import Control
from headway.supervision import CannotReplaceError, NotNowError


async def _pause(control: Control, request: Request, caller: Caller) -> Response:
    wanted = command(request, schema.PauseCommand)
    with _refusals():
        change = control.admission.pause(caller, wanted.reason, wanted.expires_s)
    return answer(change, api.PAUSE.status)


async def _resume(control: Control, request: Request, caller: Caller) -> Response:
    return answer(_carried_out(request, caller, control.admission.resume), api.RESUME.status)


async def _drain(control: Control, request: Request, caller: Caller) -> Response:
    return answer(_carried_out(request, caller, control.admission.drain), api.DRAIN.status)


async def _warmup(control: Control, request: Request, caller: Caller) -> Response:
    wanted = command(request, schema.Command)
    with _refusals():
        accepted = control.warmups.begin(caller, wanted.reason)
    return answer(accepted, api.WARMUP.status)


async def _recycle(control: Control, request: Request, caller: Caller) -> Response:
    wanted = command(request, schema.Command)
    with _refusals():
        control.recycle(caller, wanted.reason)
    taken = control.gateway.gate.desk.seats_taken
    return answer(schema.RecycleAccepted(accepted=True, seats_taken=taken), api.RECYCLE.status)


async def _silence(control: Control, request: Request, caller: Caller) -> Response:
    wanted = command(request, schema.SilenceCommand)
    if wanted.expires_s is None:
        control.silences.end(wanted.alert, caller, wanted.reason)
    else:
        with _refusals():
            control.silences.silence(wanted.alert, wanted.expires_s, caller, wanted.reason)
    return answer(schema.Silences(silences=control.silences.active()))


#: The handler of each of these routes, by the route's name.
HANDLERS: Mapping[str, Handler] = {
    "pause": _pause,
    "resume": _resume,
    "drain": _drain,
    "warmup": _warmup,
    "recycle": _recycle,
    "silence": _silence,
}


def _carried_out(
    request: Request, caller: Caller, act: Callable[[Caller, str], schema.AdmissionChanged]
) -> schema.AdmissionChanged:
    """Carry a command out."""
    wanted = command(request, schema.Command)
    with _refusals():
        return act(caller, wanted.reason)


@contextmanager
def _refusals() -> Iterator[None]:
    """The problems for which such a command is refused."""
    try:
        yield
    except (CannotReplaceError, NoWarmupError) as error:
        raise ProblemError(HTTPStatus.NOT_IMPLEMENTED, f"{error}.") from None
    except (NotNowError, CommandConflictError) as error:
        raise ProblemError(HTTPStatus.CONFLICT, f"{error}.") from None
