"""What the handlers of the admin API share: the order in a body with its author, the name of an action, the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from http import HTTPStatus

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from headway.audit import Caller
from headway.http.admin.orders import AnOrder, read_order
from headway.http.admin.problem import ProblemError
from headway.operator import Control

Handler = Callable[[Control, Request, Caller], Awaitable[Response]]


def action(request: Request) -> str:
    """The method and the path of a known route, without host and query."""
    return f"{request.method} {request.scope['path']}"


async def order(control: Control, request: Request, caller: Caller, expected: type[AnOrder]) -> tuple[AnOrder, Caller]:
    """The order in the body, and its author. One that cannot be read is in the audit log as refused."""
    try:
        wanted = await read_order(request, expected)
    except ProblemError as problem:
        control.refused(caller, action(request), problem.detail)
        raise
    return wanted, replace(caller, actor=wanted.actor or caller.actor)


def answer(body: BaseModel, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> Response:
    """A model as JSON."""
    return Response(body.model_dump_json(), status, headers, media_type="application/json")
