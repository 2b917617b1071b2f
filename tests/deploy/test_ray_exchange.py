"""One exchange with a server that the test plays over TCP: what the front is told, and what is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import pytest
from headway_fleet.forwarding import Lost, fetch
from headway_fleet.server import Server
from headway_fleet.settings import FleetSettings
from tcp_servers import accepting_none, answering, closed_address, listening

from headway.router.addresses import Address
from headway.router.forwarding import exchange
from headway.router.forwarding.call import InstanceLostError
from headway.router.forwarding.forwarded import Forwarded, Piece

ASKED = Forwarded("POST", "/v1/completions", (), b"{}")
WHOLE = b"HTTP/1.1 %d Said\r\nContent-Length: 2\r\n\r\nok"
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """A server without a process, for whose connections the replica waits only for a moment."""
    monkeypatch.setattr(exchange, "_CONNECT_S", 0.05)
    one = Server(FleetSettings(("m",)), "one")
    yield one
    await one.end()


async def said(server: Server, address: str, request: Forwarded = ASKED) -> list[Piece | Lost]:
    """All messages of one exchange."""
    server.address = Address("one", f"http://{address}")
    return [message async for message in server.exchange(request)]


@pytest.mark.parametrize(
    ("response", "body", "answered", "failed"),
    [
        pytest.param(WHOLE % 200, b"ok", 1, 0, id="answered"),
        pytest.param(WHOLE % 400, b"ok", 0, 0, id="the request's own fault"),
        pytest.param(WHOLE % 500, b"ok", 0, 1, id="failed"),
        pytest.param(WHOLE % 503, b"ok", 0, 0, id="refused"),
        pytest.param(b"", b"", 0, 1, id="lost before an answer"),
        pytest.param(HALF, b"", 0, 1, id="lost before the body"),
    ],
)
async def test_an_exchange_says_what_the_server_did(
    server: Server, response: bytes, body: bytes, answered: int, failed: int
) -> None:
    """A request that may have reached it is lost as such; an answer counts with its first bytes."""
    async with listening(answering(response)) as address:
        messages = await said(server, address)
    assert b"".join(message.body for message in messages if isinstance(message, Piece)) == body
    assert [message.sent for message in messages if isinstance(message, Lost)] == [True] * (body != b"ok")
    assert (server.answered, server.failed) == (answered, failed)


async def test_a_server_that_is_lost_in_the_middle_has_answered(server: Server) -> None:
    """The missing part is said, and counts as no failure: the next report would take that for one before any output."""
    taken = asyncio.Event()

    async def halves(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HALF + b"half")
        await taken.wait()

    async with listening(halves) as address:
        server.address = Address("one", f"http://{address}")
        async with aclosing(server.exchange(ASKED)) as messages:
            assert isinstance(await anext(messages), Piece)
            taken.set()
            assert isinstance(await anext(messages), Lost)
    assert (server.answered, server.failed) == (1, 0)


async def test_a_server_without_a_connection_has_not_had_the_request(server: Server) -> None:
    """Whether it refuses it or takes too long; either is a failure of the server."""
    with accepting_none() as hanging:
        for address in (closed_address(), hanging):
            (lost,) = await said(server, address)
            assert isinstance(lost, Lost)
            assert not lost.sent, lost
    assert server.failed == 2


async def test_requests_without_a_body_say_nothing_of_the_engine(server: Server) -> None:
    """The list of models is answered without it."""
    asked = Forwarded("GET", "/v1/models", ())
    async with listening(_models) as address:
        assert isinstance((await said(server, address, asked))[0], Piece)
    assert isinstance((await said(server, closed_address(), asked))[0], Lost)
    assert (server.answered, server.failed) == (0, 0)


async def _models(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(WHOLE % 200)
    await writer.drain()


async def test_a_front_that_stops_reading_ends_the_exchange(server: Server) -> None:
    """The server sees its connection closed; that is no failure of it."""
    closed = asyncio.Event()

    async def streaming(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HALF + b"half")
        await reader.read()
        closed.set()

    async with listening(streaming) as address:
        server.address = Address("one", f"http://{address}")
        async with aclosing(server.exchange(ASKED)) as messages:
            assert isinstance(await anext(messages), Piece)
        await closed.wait()
    assert server.failed == 0


async def test_servers_that_take_no_connection_in_time_make_no_request_poison(server: Server) -> None:
    """Two of them, or more: the next server has its answer."""
    with accepting_none() as hanging:
        async with listening(answering(WHOLE % 200)) as address:
            fleet = {"a": hanging, "b": hanging, "c": hanging, "d": address}

            async def send(request: Forwarded, tried: frozenset[str]) -> AsyncGenerator[str | Piece, None]:
                name = next(one for one in fleet if one not in tried)
                yield name
                for message in await said(server, fleet[name], request):
                    if isinstance(message, Lost):
                        raise InstanceLostError(name, sent=message.sent)
                    yield message

            pieces = [piece async for piece in fetch(send, 5.0, ASKED)]
            assert (pieces[0].status, b"".join(piece.body for piece in pieces)) == (200, b"ok")
