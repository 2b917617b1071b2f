"""One client of an ASGI application, by hand: what it sends, and every message that it is sent."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.types import ASGIApp, Message

CHAT = "/v1/chat/completions"
JSON = (b"content-type", b"application/json")


def fields(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers as a server has them; an underscore in a name stands for a hyphen."""
    return [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]


class AsgiClient:
    """Sends its pieces each ``gap_s``; after the last it sends nothing more, and leaves once ``leaves`` is set."""

    def __init__(self, app: ASGIApp, *pieces: bytes, gap_s: float = 0.0) -> None:
        self.app, self.pieces, self.gap_s = app, list(pieces), gap_s
        self.finishes = True
        self.leaves = asyncio.Event()
        self.sent: list[Message] = []
        self.sent_s: list[float] = []
        self.took_bytes = 0
        self._kind = "http"

    async def receive(self) -> Message:
        if self._kind == "websocket":
            return {"type": "websocket.connect"}
        if self.gap_s:
            await asyncio.sleep(self.gap_s)
        if self.pieces:
            piece = self.pieces.pop(0)
            self.took_bytes += len(piece)
            return {"type": "http.request", "body": piece, "more_body": bool(self.pieces) or not self.finishes}
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        self.sent_s.append(asyncio.get_running_loop().time())

    async def ask(self, *headers: tuple[bytes, bytes], path: str = CHAT, **scope: Any) -> int:
        """Make the call; the status of the answer, 0 when there was none."""
        whole = {"type": "http", "method": "POST", "path": path, "headers": list(headers), "query_string": b"", **scope}
        self._kind = whole["type"]
        await self.app(whole, self.receive, self.send)
        return self.status

    @property
    def status(self) -> int:
        starts = [message for message in self.sent if message["type"] == "http.response.start"]
        assert len(starts) <= 1, "two response starts"
        return int(starts[0]["status"]) if starts else 0

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]} if self.status else {}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def error(self) -> dict[str, Any]:
        """The error that the body of the answer is."""
        found: dict[str, Any] = json.loads(self.body)["error"]
        return found


async def posted(app: ASGIApp, body: Any = None, path: str = CHAT, **headers: str) -> AsgiClient:
    """The client after one request with this JSON body, bytes or a value."""
    client = AsgiClient(app, body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode())
    await client.ask(JSON, *fields(headers), path=path)
    return client
