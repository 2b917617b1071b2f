"""The number of header fields of a request, exact, for any server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from headway.http.limits.body import Budget
from headway.http.limits.bounds import Bounds
from headway.http.limits.request_limits import RequestLimits


async def answering(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers whatever it is."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


async def asked(fields: int, kind: str = "http") -> list[Message]:
    """What is sent for a request with so many fields."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope: dict[str, Any] = {"type": kind, "method": "GET", "path": "/v1/models", "headers": [(b"a", b"b")] * fields}
    await RequestLimits(answering, Bounds(), Budget(1000))(scope, receive, send)
    return sent


@pytest.mark.parametrize(("fields", "status"), [(128, 200), (129, 431), (2000, 431)])
async def test_a_request_has_no_more_than_128_fields(fields: int, status: int) -> None:
    """431 with a code of its own, before the application is asked."""
    sent = await asked(fields)
    assert sent[0]["status"] == status
    if status == 431:
        error = json.loads(sent[1]["body"])["error"]
        assert error["code"] == "headers_too_large"
        assert error["message"] == "The request has more than the 128 header fields this server accepts."


async def test_a_websocket_has_no_more_either() -> None:
    """It is closed before it is accepted."""
    assert [message["type"] for message in await asked(129, "websocket")] == ["websocket.close"]
