"""The front: the ingress of the application, which forwards what clients of a server may ask for, and nothing else.

The admin API and the metrics of the servers stay closed here.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from http import HTTPStatus

from ray.exceptions import RayError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from ray.serve.handle import DeploymentHandle
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from headway.api_errors import error_body
from headway.http import Bounds, Budget, RequestLimits
from headway.router.forwarding.call import InstanceLostError, NoInstanceError
from headway.router.forwarding.forwarded import Forwarded, Piece
from headway_fleet.client_requests import is_open
from headway_fleet.forwarding import Lost, relay

#: Those of a server, where tensors may be prompts; what waits is bounded there, too.
_BOUNDS, _BUDGET = Bounds(prompt_embeds=True), Budget(sys.maxsize)


class Front:
    """A front process; a client that loses its connection to a front loses its request."""

    def __init__(self, servers: DeploymentHandle, route_s: float) -> None:
        self._servers = servers.options(stream=True)
        self._answer = _Answer(RequestLimits(relay(self._send, route_s), _BOUNDS, _BUDGET))

    async def __call__(self, request: Request) -> Response:
        """Answer one client."""
        if is_open(request.scope):
            return self._answer
        status = HTTPStatus.NOT_FOUND
        body = error_body(request.url.path, status, "no such route", "route_not_found")
        return Response(body, status, media_type="application/json")

    async def _send(self, request: Forwarded, tried: frozenset[str]) -> AsyncGenerator[str | Piece, None]:
        """The messages of a replica that the request router chooses."""
        messages, name = self._servers.forward.remote(request, tried), "a replica"
        try:
            async for message in messages:
                if isinstance(message, Lost):
                    raise InstanceLostError(name, sent=message.sent) from RuntimeError(message.error)
                name = message if isinstance(message, str) else name
                yield message
        except (BackPressureError, DeploymentUnavailableError) as error:
            raise NoInstanceError from error
        except RayError as error:
            raise InstanceLostError(name, sent=True) from error
        except BaseException:
            messages.cancel()
            raise


class _Answer(Response):
    """An ASGI application in the place of a response, which Serve calls in the same way."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._application(scope, receive, send)
