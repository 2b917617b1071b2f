"""The front: the ingress of the application. It forwards what clients of a server may ask for, and nothing else.

A client chooses neither its class nor its tenant by headers: its key does, on the server. The admin API and the metrics
of the servers stay closed here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from http import HTTPStatus

from ray.exceptions import RayError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from ray.serve.handle import DeploymentHandle
from starlette.requests import Request
from starlette.responses import Response as Answer
from starlette.responses import StreamingResponse

from headway.api_errors import error_body
from headway_fleet.forwarding import Forwarding, LostError, NoReplicaError, Response
from headway_fleet.headers import of_client
from headway_fleet.messages import Forwarded, Message
from headway_fleet.targets import target_of

#: That of a server, and of the proxy in deploy/proxy.
_MOST_BODY_BYTES = 32 * 1024 * 1024
_NOT_OF_CLIENTS = frozenset({"x-headway-class", "x-headway-tenant"})


class Front:
    """One of a few processes; a client that loses the connection to it has lost its request."""

    def __init__(self, servers: DeploymentHandle, route_s: float) -> None:
        self._servers = servers.options(stream=True)
        self._forwarding = Forwarding(self._send, route_s)

    async def __call__(self, request: Request) -> Answer:
        """Answer one client."""
        path = request.url.path
        target = target_of(request.scope)
        if target is None:
            return _refused(path, HTTPStatus.NOT_FOUND, "no such route", "route_not_found")
        body = await _read(request)
        if body is None:
            return _refused(path, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too large", "body_too_large")
        address = None if request.client is None else request.client.host
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _NOT_OF_CLIENTS]
        forwarded = Forwarded(request.method, target, of_client(headers, address), body)
        return _answer(await self._forwarding.response(forwarded))

    async def _send(self, forwarded: Forwarded) -> AsyncGenerator[Message, None]:
        """The messages of a replica that the request router chooses."""
        messages, ended = self._servers.forward.remote(forwarded), False
        try:
            async for message in messages:
                yield message
            ended = True
        except (BackPressureError, DeploymentUnavailableError) as error:
            ended = True
            raise NoReplicaError(str(error)) from error
        except RayError as error:
            ended = True
            raise LostError(str(error)) from error
        finally:
            if not ended:
                messages.cancel()


def _answer(response: Response) -> Answer:
    answer = StreamingResponse(response.body, response.status)
    answer.raw_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers]
    return answer


def _refused(path: str, status: HTTPStatus, message: str, code: str) -> Answer:
    return Answer(error_body(path, status, message, code), status, media_type="application/json")


async def _read(request: Request) -> bytes | None:
    """The body of a request; None where it is too large."""
    pieces, size_bytes = [], 0
    async for piece in request.stream():
        pieces.append(piece)
        size_bytes += len(piece)
        if size_bytes > _MOST_BODY_BYTES:
            return None
    return b"".join(pieces)
