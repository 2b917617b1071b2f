"""Requests that a fallback client sends on to another model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from asgi_client import CHAT, AsgiClient
from starlette.types import Message, Receive, Scope, Send
from upstream_stand_in import Elsewhere

from headway.fallback.answer import ForwardResult
from headway.fallback.client import (
    FallbackClient,
)
from headway.fallback.diverted_request import DivertedRequest
from headway.fallback.settings import FallbackSettings

KEY = "sk-other-0123456789"
SECRET = "a secret prompt"


def request(**more: Any) -> bytes:
    """The body of a chat request."""
    return json.dumps({"model": "here", "messages": [{"role": "user", "content": SECRET}], **more}).encode()


class Client(AsgiClient):
    """The other end of an ASGI call, which disconnects after the answer, or on demand."""

    def __init__(self) -> None:
        super().__init__(nobody)

    async def send(self, message: Message) -> None:
        await super().send(message)
        if message["type"] == "http.response.body" and not message["more_body"]:
            self.leaves.set()  # as uvicorn does


async def nobody(scope: Scope, receive: Receive, send: Send) -> None:
    """In place of an application."""
    raise AssertionError


@asynccontextmanager
async def upstream(to: Elsewhere | str, *, timeout_s: float = 5.0, **more: Any) -> AsyncIterator[FallbackClient]:
    """The way to a stand-in, or to an address."""
    url = to if isinstance(to, str) else to.url
    way = FallbackClient(FallbackSettings(url, "small", KEY, timeout_s), **more)
    try:
        yield way
    finally:
        await way.close()


async def send_on(
    way: FallbackClient, body: bytes, client: Client | None = None, **more: Any
) -> tuple[ForwardResult, Client]:
    """One request, sent on."""
    client = client or Client()
    headers = {"authorization": "Bearer client-key", "cookie": "c=1", "traceparent": "00-1-2-01", "x-evil": "1"}
    options: dict[str, Any] = {"class_name": "normal", "headers": headers} | more
    path = options.pop("path", CHAT)
    asked = DivertedRequest(path, body, options.pop("headers"), client.receive, client.send, **options)
    return await way.serve(asked), client
