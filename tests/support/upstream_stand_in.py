"""A stand-in for another OpenAI-compatible server, on a free loopback port, with the faults that tests need."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

CHUNKS = [f'data: {{"choices":[{{"delta":{{"content":"w{number}"}}}}]}}\n\n'.encode() for number in range(5)]
DONE = b"data: [DONE]\n\n"


@dataclass
class Elsewhere:
    """What it does; tests change it. ``seen`` are (path, headers, body), ``peers`` the addresses they came from."""

    url: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b'{"object":"chat.completion","choices":[]}'
    content_type: str = "application/json"
    wait_s: float = 0.0  # before the first byte
    between_s: float = 0.0  # between the pieces of a stream
    pieces: list[bytes] = field(default_factory=lambda: [*CHUNKS, DONE])
    cut: bool = False  # close the connection instead of ending the stream
    seen: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    peers: list[tuple[str, int]] = field(default_factory=list)
    running: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One request."""
        sent = json.loads(await request.read())
        self.seen.append((request.path, {name.lower(): value for name, value in request.headers.items()}, sent))
        assert request.transport is not None
        self.peers.append(request.transport.get_extra_info("peername"))
        self.running += 1
        try:
            await asyncio.sleep(self.wait_s)
            if sent.get("stream") and self.status == 200:
                return await self._stream(request)
            headers = {"content-type": self.content_type} | self.headers
            return web.Response(status=self.status, body=self.body, headers=headers)
        except (asyncio.CancelledError, ConnectionResetError):
            self.left.set()
            raise
        finally:
            self.running -= 1

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"} | self.headers)
        await response.prepare(request)
        for piece in self.pieces:
            await response.write(piece)
            await asyncio.sleep(self.between_s)
        if self.cut:
            assert request.transport is not None
            request.transport.abort()
        return response


@asynccontextmanager
async def elsewhere(**faults: Any) -> AsyncIterator[Elsewhere]:
    """A server that runs for the length of a block."""
    stand_in = Elsewhere(**faults)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", stand_in.answer)
    app.router.add_post("/v1/completions", stand_in.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    stand_in.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield stand_in
    finally:
        await runner.cleanup()
