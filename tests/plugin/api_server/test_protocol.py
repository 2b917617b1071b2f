"""uvicorn's protocol within bounds, fed by hand: heads that grow, arrive slowly or never."""

from __future__ import annotations

import asyncio
from argparse import Namespace

import pytest
from pipe import Pipe
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http import auto
from uvicorn.server import ServerState
from virtual_time import on_virtual_time

from headway.api_server.protocol import BoundedProtocol
from headway.http.limits.bounds import MAX_TARGET_BYTES, Bounds
from headway.vllm_adapter import endpoint

BOUNDS = Bounds(max_header_bytes=9000, body_timeout_s=20.0)
READ_BYTES = 256 * 1024


async def answering(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers without reading the body; slowly where it is asked to."""
    assert scope["type"] == "http"
    if scope["path"] == "/slow":
        await asyncio.sleep(100)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture(autouse=True)
def bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small bounds, and uvicorn as it was afterwards."""
    monkeypatch.setattr(BoundedProtocol, "bounds", BOUNDS)
    monkeypatch.setattr(auto, "AutoHTTPProtocol", auto.AutoHTTPProtocol)


class Connection:
    """One connection to an application that answers at once."""

    def __init__(self) -> None:
        config = Config(answering, log_config=None, lifespan="off", ws="none", timeout_keep_alive=5)
        config.load()
        self.pipe = Pipe()
        self.protocol = BoundedProtocol(config, ServerState(), {}, asyncio.get_running_loop())
        self.protocol.connection_made(self.pipe)

    async def feed(self, data: bytes, chunk_bytes: int = READ_BYTES) -> int:
        """Feed as the socket would, until the server closes; returns the bytes it took."""
        took_bytes = 0
        while took_bytes < len(data) and not self.pipe.closed:
            self.protocol.data_received(data[took_bytes : took_bytes + chunk_bytes])
            took_bytes += chunk_bytes
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        return min(took_bytes, len(data))

    @property
    def statuses(self) -> list[int]:
        return [int(part[:3]) for part in self.pipe.written.split(b"HTTP/1.1 ")[1:]]


HUGE = 4_000_000
HEADS = {
    "one value": (b"GET / HTTP/1.1\r\nx-a: " + b"1" * HUGE, 431),
    "one name": (b"GET / HTTP/1.1\r\n" + b"a" * HUGE, 431),
    "many fields": (b"GET / HTTP/1.1\r\n" + b"x-a: b\r\n" * (HUGE // 8), 431),
    "one path": (b"GET /" + b"a" * HUGE, 414),
    "one query": (b"GET /?" + b"a" * HUGE, 414),
    "trailers": (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"x-a: b\r\n" * (HUGE // 8), 0),
    "one trailer": (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-a: " + b"1" * HUGE, 0),
    "a chunk extension": (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1;" + b"a" * HUGE, 0),
}


@pytest.mark.parametrize("chunk_bytes", [1000, READ_BYTES])
@pytest.mark.parametrize("name", HEADS)
@on_virtual_time
async def test_a_head_without_end_is_refused_after_the_bound_and_one_read(name: str, chunk_bytes: int) -> None:
    """414, 431, and the connection is closed; the application has not been asked about the head."""
    data, status = HEADS[name]
    connection = Connection()
    took_bytes = await connection.feed(data, chunk_bytes)
    assert connection.pipe.closed
    assert took_bytes <= BOUNDS.max_header_bytes + MAX_TARGET_BYTES + 2 * chunk_bytes
    assert status in connection.statuses or (status == 0 and connection.statuses != [])
    assert 200 not in connection.statuses or status == 0


@pytest.mark.parametrize(("target", "fields", "status"), [("/", 2000, 431), ("/" + "a" * 9000, 0, 414)])
@on_virtual_time
async def test_a_head_that_is_complete_in_one_read_is_bounded_all_the_same(
    target: str, fields: int, status: int
) -> None:
    """The parser has seen its end; the application has not been asked."""
    connection = Connection()
    await connection.feed(f"GET {target} HTTP/1.1\r\n".encode() + b"x-a: b\r\n" * fields + b"\r\n")
    assert connection.statuses == [status]
    assert connection.pipe.closed


@on_virtual_time
async def test_many_small_heads_and_a_large_body_pass() -> None:
    """The count of a request is not held against the next, nor a body against its head."""
    connection = Connection()
    for _ in range(50):
        await connection.feed(b"GET / HTTP/1.1\r\nx-a: " + b"1" * 1000 + b"\r\n\r\n")
    body = b"1" * 100_000
    await connection.feed(b"POST / HTTP/1.1\r\ncontent-length: 100000\r\n\r\n" + body, 500)
    assert connection.statuses == [200] * 51
    assert not connection.pipe.closed


@on_virtual_time
async def test_a_head_that_drips_is_answered_408_in_time() -> None:
    """A byte a second: however many have come, the head has 20 s."""
    connection = Connection()
    await connection.feed(b"GET / HTTP/1.1\r\nx-a: ")
    for _ in range(25):
        await asyncio.sleep(1)
        await connection.feed(b"1")
    assert connection.statuses == [408]
    assert connection.pipe.closed


@pytest.mark.parametrize(("data", "statuses"), [(b"", []), (b"GET / HTTP/1.1\r\nx-a: 1", [408])], ids=["idle", "half"])
@on_virtual_time
async def test_a_connection_without_a_request_is_closed_in_time(data: bytes, statuses: list[int]) -> None:
    """Half a head is answered with 408; where nothing came the connection is closed without an answer."""
    connection = Connection()
    await connection.feed(data)
    await asyncio.sleep(19)
    assert not connection.pipe.closed
    await asyncio.sleep(2)
    assert connection.pipe.closed
    assert connection.statuses == statuses


@on_virtual_time
async def test_a_body_that_drips_on_after_the_answer_is_closed_in_time() -> None:
    """Answered unread: the rest has 20 s to come, however it drips."""
    connection = Connection()
    await connection.feed(b"POST / HTTP/1.1\r\ncontent-length: 1000\r\n\r\n")
    assert connection.statuses == [200]
    for _ in range(25):
        await asyncio.sleep(1)
        await connection.feed(b"1")
    assert connection.pipe.closed


@on_virtual_time
async def test_the_second_head_of_a_connection_has_the_same_time() -> None:
    """uvicorn's own limit ends with the first byte after an answer."""
    connection = Connection()
    await connection.feed(b"GET / HTTP/1.1\r\n\r\n")
    await asyncio.sleep(1)
    await connection.feed(b"GET / HTTP/1.1\r\nx-a: ")
    await asyncio.sleep(21)
    assert connection.statuses == [200, 408]
    assert connection.pipe.closed


@on_virtual_time
async def test_a_connection_whose_body_came_after_the_answer_does_not_stay_open() -> None:
    """The connection is idle then, and uvicorn's own limit was ended by the bytes."""
    connection = Connection()
    await connection.feed(b"POST / HTTP/1.1\r\ncontent-length: 4\r\n\r\n")
    await asyncio.sleep(1)
    await connection.feed(b"1234")
    await asyncio.sleep(21)
    assert connection.statuses == [200]
    assert connection.pipe.closed


@on_virtual_time
async def test_blank_lines_after_an_answer_keep_no_connection_open() -> None:
    """They begin no request, however many come."""
    connection = Connection()
    await connection.feed(b"GET / HTTP/1.1\r\n\r\n")
    for _ in range(11):
        await asyncio.sleep(2)
        await connection.feed(b"\r\n")
    assert connection.statuses == [200]
    assert connection.pipe.closed


@on_virtual_time
async def test_a_head_that_is_here_is_not_waited_for() -> None:
    """Nor is a connection that becomes a websocket."""
    connection = Connection()
    await connection.feed(b"GET /slow HTTP/1.1\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n")
    assert connection.protocol._limit is None


@on_virtual_time
async def test_a_long_answer_is_not_cut_off() -> None:
    """The limit is for a client that is waited for, never for one that waits."""
    connection = Connection()
    await connection.feed(b"GET /slow HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nx-a: 1")
    await asyncio.sleep(99)
    assert not connection.pipe.closed
    await asyncio.sleep(30)
    assert connection.statuses == [200, 408]


@on_virtual_time
async def test_a_connection_that_is_lost_leaves_no_timer() -> None:
    """Nothing is waited for any more."""
    connection = Connection()
    await connection.feed(b"GET / HTTP/1.1\r\nx-a")
    connection.protocol.connection_lost(None)
    assert connection.protocol._limit is None


@on_virtual_time
async def test_what_is_no_http_is_still_400() -> None:
    """uvicorn's own answer to what the parser cannot read."""
    connection = Connection()
    await connection.feed(b"\x00\x01\x02\r\n\r\n")
    assert connection.statuses == [400]


def test_uvicorn_takes_the_bounded_protocol() -> None:
    """Also under plain `vllm serve`, which names no protocol; h11 gets the bound as its option."""
    args = Namespace(h11_max_incomplete_event_size=4194304)
    endpoint._bound_server(BOUNDS, args)
    config = Config(answering, log_config=None)
    config.load()
    assert config.http_protocol_class is BoundedProtocol
    assert BoundedProtocol.bounds is BOUNDS
    assert args.h11_max_incomplete_event_size == 9000
