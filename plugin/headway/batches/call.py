"""One request of this process to its own server: it takes the way of every other request, from the route guard on.

The scope names the sender, whose rights, rates and budgets the guard looks up as they are now; no client can do that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Scope

from headway.admission import RequestContext
from headway.http.access.identity import SENDER, Sender
from headway.http.inference.middleware import ON_CONTEXT


@dataclass(slots=True)
class Answer:
    """A whole answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True, eq=False)
class Call:
    """A request that runs in this process. ``leave`` ends it, as a client does that closes its connection."""

    app: ASGIApp
    context: RequestContext | None = None
    _left: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def waits(self) -> bool:
        """Whether it is in the queue, or not even there."""
        permit = None if self.context is None else self.context.permit
        return permit is None or permit.dispatched_s is None

    def leave(self) -> None:
        """End the request; ``ask`` returns None."""
        self._left.set()

    async def ask(self, path: str, body: bytes, sender: Sender, class_name: str) -> Answer | None:
        """The answer; None where the request was left before it had one."""
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"x-headway-class", class_name.encode()),
            *([(b"x-headway-tenant", sender.tenant.encode("latin-1"))] if sender.trusted else []),
        ]
        scope: Scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": headers,
            "client": None, "server": None, "state": {}, SENDER: sender, ON_CONTEXT: self._found,
        }  # fmt: skip
        pieces: list[bytes] = []
        start: Message | None = None
        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        whole = False

        async def receive() -> Message:
            if unread:
                return unread.pop()
            await self._left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            nonlocal start, whole
            if message["type"] == "http.response.start":
                start = message
            elif message["type"] == "http.response.body":
                pieces.append(message.get("body", b""))
                whole = not message.get("more_body", False)

        await self.app(scope, receive, send)
        if start is None or not whole or (self._left.is_set() and start["status"] >= HTTPStatus.BAD_REQUEST):
            return None
        named = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]}
        return Answer(start["status"], named, b"".join(pieces))

    def _found(self, context: RequestContext) -> None:
        self.context = context
