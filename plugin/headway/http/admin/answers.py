"""The common parts of the admin API's handlers: the command that was read, the name of an action, the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from headway.audit import Caller
from headway.http.admin.commands import ACommand
from headway.operator import Control

Handler = Callable[[Control, Request, Caller], Awaitable[Response]]

#: Where the ASGI scope of a request holds its command, once it has been read and checked.
COMMAND = "headway.command"


def action(request: Request) -> str:
    """The method and the path of a known route, without host and query."""
    return f"{request.method} {request.scope['path']}"


def command(request: Request, expected: type[ACommand]) -> ACommand:
    """The command in the body, of the kind named in the table of routes."""
    found = request.scope[COMMAND]
    assert isinstance(found, expected)
    return found


def answer(body: BaseModel, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> Response:
    """A model as JSON."""
    return Response(body.model_dump_json(), status, headers, media_type="application/json")
