"""uvicorn's protocol and the bounds of connections and header fields, fed by hand."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pipe import Pipe
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http import auto
from uvicorn.server import ServerState
from virtual_time import on_virtual_time

from headway.api_server.protocol import BoundedProtocol, bound_protocol
from headway.http.limits.bounds import Bounds
from headway.http.limits.connections import Connections


class WebsocketProtocol(asyncio.Protocol):
    """Stands for the protocol that uvicorn hands a websocket to."""

    lost = 0

    def __init__(self, **options: Any) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost += 1


async def answering(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers every request at once."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture(autouse=True)
def bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two connections in all and one of each address, and everything as it was afterwards."""
    monkeypatch.setattr(BoundedProtocol, "bounds", BoundedProtocol.bounds)
    monkeypatch.setattr(BoundedProtocol, "all_connections", BoundedProtocol.all_connections)
    monkeypatch.setattr(auto, "AutoHTTPProtocol", auto.AutoHTTPProtocol)
    bound_protocol(Bounds(max_connections=2, max_connections_per_address=1, max_header_fields=16))


def connect(address: str) -> BoundedProtocol:
    """A new connection from there."""
    config = Config(answering, log_config=None, lifespan="off", ws=WebsocketProtocol)  # type: ignore[arg-type]  # all that is asked of one
    config.load()
    protocol = BoundedProtocol(config, ServerState(), {}, asyncio.get_running_loop())
    protocol.connection_made(Pipe(address))
    return protocol


def written(protocol: BoundedProtocol) -> bytes:
    """What was sent on a connection."""
    pipe = protocol.transport
    assert isinstance(pipe, Pipe)
    return pipe.written


@pytest.mark.parametrize("path", [b"/headway/healthz", b"/headway/readyz?x=1", b"/health", b"/metrics"])
@on_virtual_time
async def test_a_probe_is_answered_where_all_connections_are_taken(path: bytes) -> None:
    """A server that is full is not dead. Its next request on that connection is refused where it is none."""
    for address in ("10.0.0.1", "10.0.0.2"):
        connect(address)
    probe = connect("10.0.0.3")
    probe.data_received(b"GET " + path + b" HTTP/1.1\r\n\r\n")
    await asyncio.sleep(0.01)
    assert written(probe).startswith(b"HTTP/1.1 200 ")
    probe.data_received(b"GET /v1/models HTTP/1.1\r\n\r\n")
    assert b"HTTP/1.1 503 " in written(probe)
    assert probe.transport.is_closing()


@on_virtual_time
async def test_connections_for_probes_are_few_and_come_back() -> None:
    """Beyond them a connection is refused before it says anything."""
    for address in ("10.0.0.1", "10.0.0.2"):
        connect(address)
    spares = [connect("10.0.0.3") for _ in range(64)]
    assert not any(map(written, spares))
    assert written(connect("10.0.0.4")).startswith(b"HTTP/1.1 503 ")
    spares[0].connection_lost(None)
    assert written(connect("10.0.0.4")) == b""


@pytest.mark.parametrize("addresses", [("10.0.0.1", "10.0.0.2", "10.0.0.3"), ("10.0.0.1", "10.0.0.1")])
@on_virtual_time
async def test_a_connection_too_many_is_answered_503_and_closed(addresses: tuple[str, ...]) -> None:
    """In all, or of one address; without a timer, and the others are served."""
    *others, late = [connect(address) for address in addresses]
    late.data_received(b"GET /v1/models HTTP/1.1\r\n\r\n")
    head, _, body = written(late).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nretry-after: 2\r\n" in head
    assert json.loads(body)["error"]["code"] == "too_many_connections"
    assert late.transport.is_closing()
    assert late._limit is None
    for other in others:
        other.data_received(b"GET / HTTP/1.1\r\n\r\n")
        await asyncio.sleep(0.01)
        assert written(other).startswith(b"HTTP/1.1 200 ")


@on_virtual_time
async def test_a_connection_that_is_closed_makes_room() -> None:
    """Once, however often it is reported; one that was refused makes none."""
    first, second = connect("10.0.0.1"), connect("10.0.0.2")
    refused = connect("10.0.0.3")
    refused.connection_lost(None)
    assert connect("10.0.0.3")._spare
    for _ in range(2):
        first.connection_lost(None)
    third = connect("10.0.0.1")
    assert third._counted
    for protocol in (second, third):
        protocol.connection_lost(None)


@on_virtual_time
async def test_a_websocket_stays_counted_until_it_is_closed() -> None:
    """Another protocol has the connection by then, and gets to know as well."""
    protocol = connect("10.0.0.1")
    protocol.data_received(b"GET / HTTP/1.1\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n")
    websocket = protocol.transport.get_protocol()
    assert isinstance(websocket, WebsocketProtocol)
    assert connect("10.0.0.1")._spare
    websocket.connection_lost(None)
    assert websocket.lost == 1
    assert connect("10.0.0.1")._counted


@pytest.mark.parametrize(("fields", "status"), [(16, b"200"), (17, b"431"), (5000, b"431")])
@on_virtual_time
async def test_a_head_has_no_more_fields_than_allowed(fields: int, status: bytes) -> None:
    """The application is not asked, and the connection is closed."""
    protocol = connect("10.0.0.1")
    protocol.data_received(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * fields + b"\r\n")
    await asyncio.sleep(0.01)
    assert written(protocol).startswith(b"HTTP/1.1 " + status)
    assert protocol.transport.is_closing() is (status == b"431")


@on_virtual_time
async def test_the_fields_of_one_request_are_not_held_against_the_next() -> None:
    """Each head is counted by itself."""
    protocol = connect("10.0.0.1")
    for _ in range(5):
        protocol.data_received(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 16 + b"\r\n")
        await asyncio.sleep(0.01)
    assert written(protocol).count(b"HTTP/1.1 200 ") == 5


def test_the_count_of_a_server_begins_with_its_bounds() -> None:
    """The bounds are those that the environment sets."""
    bound_protocol(Bounds(max_connections=1))
    assert isinstance(BoundedProtocol.all_connections, Connections)
    assert [BoundedProtocol.all_connections.enter("a") for _ in range(2)] == [True, False]
