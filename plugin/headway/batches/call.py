"""Requests of this process to its own server: they take the way of every other request, from the route guard on.

The scope names the sender, whose rights, rates and budgets the guard looks up as they are now; no client can do that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Scope

from headway.admission import RequestContext
from headway.http.access.identity import SENDER, Sender
from headway.http.inference.middleware import ON_CONTEXT
from headway.openai.batch_file import REFUSALS, again_after_s

log = logging.getLogger(__name__)


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


@dataclass(slots=True, eq=False)
class Calls:
    """The calls of one batch. ``class_name`` is the class in which they come now."""

    app: ASGIApp
    batch_id: str
    sender: Sender
    class_name: Callable[[], str]
    _open: set[Call] = field(default_factory=set)
    _turned: asyncio.Event = field(default_factory=asyncio.Event)

    def again(self) -> None:
        """Let all that wait, in the queue or for another try, come again at once."""
        for call in self._open:
            if call.waits:
                call.leave()
        self._turned.set()
        self._turned = asyncio.Event()

    async def answer(self, path: str, body: bytes) -> Answer:
        """The answer of a line, however often it has to come for it."""
        tries = 0
        while True:
            call = Call(self.app)
            self._open.add(call)
            try:
                answer = await call.ask(path, body, self.sender, self.class_name())
            except Exception as error:
                log.error("a line of batch %s failed with %s", self.batch_id, type(error).__name__)
                answer = Answer(500, {}, b'{"error":{"message":"The server failed.","type":"server_error"}}')
            finally:
                self._open.discard(call)
            if answer is not None:
                wait_s = again_after_s(answer.status, answer.headers, tries)
                if wait_s is None:
                    return answer
                tries += answer.status not in REFUSALS
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._turned.wait()
