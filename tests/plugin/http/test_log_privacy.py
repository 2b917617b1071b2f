"""No query string of a request, and no header or message of a WebSocket, reaches a log line of the web server."""

from __future__ import annotations

import asyncio
import logging
import logging.config
import socket
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from headway.http.log_privacy import hide_secrets, without_secrets

SECRET = "token-that-nobody-may-read"
LOGGERS = ("uvicorn.access", "uvicorn.error", "uvicorn.asgi", "uvicorn")


class Lines(logging.Handler):
    """Keeps every line as it would be printed."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.name}: {record.getMessage()}")


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """What uvicorn's loggers print at their lowest level; its filters and levels are put back afterwards."""
    handler, loggers = Lines(), [logging.getLogger(name) for name in LOGGERS]
    before = [(one, one.level, list(one.handlers), list(one.filters), one.propagate) for one in loggers]
    handler.setLevel(1)
    try:
        hide_secrets()
        for logger in loggers:
            logger.handlers, logger.propagate = [handler], False
            logger.setLevel(1)
        yield handler.lines
    finally:
        for one, level, handlers, filters, propagate in before:
            one.setLevel(level)
            one.handlers, one.filters, one.propagate = handlers, filters, propagate


async def _ask(port: int) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        for target in ("/here", "/nowhere", "/here%3Fquoted"):
            await client.get(f"http://127.0.0.1:{port}{target}?token={SECRET}&x=?{SECRET}")
    message = bytes([0x81, 0x80 + len(SECRET), 0, 0, 0, 0]) + SECRET.encode()
    for path in ("ws", "nowhere"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13"
        key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
        writer.write(f"GET /{path}?token={SECRET} HTTP/1.1\r\nHost: a\r\n{upgrade}\r\n{key}\r\n".encode())
        writer.write(f"Authorization: Bearer {SECRET}\r\n\r\n".encode())
        if b"101" in await reader.readuntil(b"\r\n\r\n"):
            writer.write(message)
            await reader.readuntil(b"\x88\x02\x03\xe8")  # the server closes: it waits for the same of its client
            writer.write(bytes([0x88, 0x80, 0, 0, 0, 0]))
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@pytest.mark.parametrize("level", ["info", "debug", "trace"])
@pytest.mark.parametrize("http", ["h11", "httptools"])
async def test_no_log_line_of_the_web_server_has_a_secret(lines: list[str], http: str, level: str) -> None:
    """HTTP, refused HTTP and WebSockets, with each of the server's parsers: the path is in the line, no query is.

    Nor is a header of a WebSocket, or a message.
    """

    async def here(request: Request) -> PlainTextResponse:
        return PlainTextResponse(request.query_params["token"])

    async def talk(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text(await websocket.receive_text())
        await websocket.close()

    app = Starlette(routes=[Route("/here", here), WebSocketRoute("/ws", talk)])
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        config = uvicorn.Config(
            app, http=http, ws="websockets-sansio", log_config=None, log_level=level, lifespan="off"
        )
        server = uvicorn.Server(config)
        config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup(sockets=[listening])
        await asyncio.wait_for(_ask(port), 20)
        await server.shutdown(sockets=[listening])
    text = "\n".join(lines)
    for shown in ('"GET /here HTTP/1.1" 200', '"GET /nowhere HTTP/1.1" 404', '"WebSocket /ws"', '"WebSocket /nowhere"'):
        assert shown in text
    assert SECRET not in text


def test_the_filter_outlives_the_set_up_of_logging(lines: list[str]) -> None:
    """uvicorn and vLLM configure their loggers when they start, after the plugin has been attached."""
    logging.config.dictConfig(uvicorn.config.LOGGING_CONFIG)
    hide_secrets()
    for name in ("uvicorn.access", "uvicorn.error", "uvicorn.asgi"):
        assert logging.getLogger(name).filters.count(without_secrets) == 1


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("Shutting down: why?", ()),
        ("%s: really?", ("what? this",)),
        ("%(a)s", ({"a": "b?c"},)),
    ],
)
def test_lines_that_are_no_requests_stay_as_they_are(message: str, arguments: tuple[object, ...]) -> None:
    """A question mark alone is no query string."""
    record = logging.LogRecord("uvicorn.error", logging.INFO, "-", 1, message, arguments, None)
    before = record.getMessage()
    assert without_secrets(record)
    assert record.getMessage() == before
