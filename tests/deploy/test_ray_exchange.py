"""One exchange with a server that the test plays over TCP: what the front is told, and what is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import pytest
from headway_fleet.exchange import ServerClient
from headway_fleet.forwarding import Forwarding
from headway_fleet.messages import Accepted, Forwarded, Head, Lost, Message
from tcp_servers import accepting_none, answering, closed_address, listening

ASKED = Forwarded("POST", "/v1/completions", (), b"{}")
WHOLE = b"HTTP/1.1 %d Said\r\nContent-Length: 2\r\n\r\nok"
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"


@pytest.fixture
async def client() -> AsyncIterator[ServerClient]:
    """A client that waits for a connection only for a moment."""
    one = ServerClient(connect_s=0.05)
    yield one
    await one.close()


async def said(client: ServerClient, address: str, request: Forwarded = ASKED) -> list[Message]:
    """All messages of one exchange."""
    return [message async for message in client.exchange(f"http://{address}", request)]


@pytest.mark.parametrize(
    ("response", "body", "answered", "failed"),
    [
        pytest.param(WHOLE % 200, b"ok", 1, 0, id="answered"),
        pytest.param(WHOLE % 400, b"ok", 0, 0, id="the request's own fault"),
        pytest.param(WHOLE % 500, b"ok", 0, 1, id="failed"),
        pytest.param(WHOLE % 503, b"ok", 0, 0, id="refused"),
        pytest.param(b"", None, 0, 1, id="lost before an answer"),
        pytest.param(HALF, b"", 0, 1, id="lost before the body"),
        pytest.param(HALF + b"half", b"half", 1, 0, id="lost in the middle"),
    ],
)
async def test_an_exchange_says_what_the_server_did(
    client: ServerClient, response: bytes, body: bytes | None, answered: int, failed: int
) -> None:
    """What may have reached it is lost as such; an answer counts with its first bytes."""
    async with listening(answering(response)) as address:
        messages = await said(client, address)
    assert isinstance(messages[0], Lost if body is None else Head)
    assert b"".join(one for one in messages if isinstance(one, bytes)) == (body or b"")
    assert [one.had_it for one in messages if isinstance(one, Lost)] == [True] * (body != b"ok")
    assert (client.answered, client.failed) == (answered, failed)


async def test_a_server_without_a_connection_has_not_had_the_request(client: ServerClient) -> None:
    """Whether it refuses it or takes too long; either is a failure of the server."""
    with accepting_none() as hanging:
        for address in (closed_address(), hanging):
            (lost,) = await said(client, address)
            assert isinstance(lost, Lost)
            assert not lost.had_it, lost
    assert client.failed == 2


async def test_requests_without_a_body_say_nothing_of_the_engine(client: ServerClient) -> None:
    """The list of models is answered without it."""
    asked = Forwarded("GET", "/v1/models", (), b"")
    async with listening(_models) as address:
        assert isinstance((await said(client, address, asked))[0], Head)
    assert isinstance((await said(client, closed_address(), asked))[0], Lost)
    assert (client.answered, client.failed) == (0, 0)


async def _models(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(WHOLE % 200)
    await writer.drain()


async def test_a_front_that_stops_reading_ends_the_exchange(client: ServerClient) -> None:
    """The server sees its connection closed; that is no failure of it."""
    closed = asyncio.Event()

    async def streaming(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HALF)
        await reader.read()
        closed.set()

    async with listening(streaming) as address:
        async with aclosing(client.exchange(f"http://{address}", ASKED)) as messages:
            assert isinstance(await anext(messages), Head)
        await closed.wait()
    assert client.failed == 0


async def test_servers_that_take_no_connection_in_time_make_no_request_poison(client: ServerClient) -> None:
    """Two of them, or more: the next server has its answer."""
    with accepting_none() as hanging:
        async with listening(answering(WHOLE % 200)) as address:
            fleet = {"a": hanging, "b": hanging, "c": hanging, "d": address}

            async def send(request: Forwarded) -> AsyncGenerator[Message, None]:
                name = next(one for one in fleet if one not in request.tried)
                yield Accepted(name)
                async with aclosing(client.exchange(f"http://{fleet[name]}", request)) as messages:
                    async for message in messages:
                        yield message

            response = await Forwarding(send, route_s=5.0).response(ASKED)
            assert (response.status, b"".join([piece async for piece in response.body])) == (200, b"ok")
