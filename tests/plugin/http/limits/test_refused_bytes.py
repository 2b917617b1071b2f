"""Refusals of a head or a body: status, code, message and headers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from asgi_client import JSON, AsgiClient
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send
from virtual_time import on_virtual_time

from headway.http.limits.bounds import MAX_TARGET_BYTES, Bounds
from headway.http.limits.json_shape import MAX_BRACKETS, MAX_DEPTH, MAX_STRINGS
from headway.http.limits.request_limits import Budget, RequestLimits

BOUNDS = Bounds(
    max_header_bytes=2000,
    max_body_bytes=1 << 20,
    max_bodies_bytes=1 << 21,
    body_timeout_s=20.0,
    min_body_bytes_per_s=10,
)
Fields = list[tuple[bytes, bytes]]
TEXT = (b"content-type", b"text/plain")
INVALID = "invalid_request_error"


async def reading(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that takes any body."""
    await Request(scope, receive).body()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"read"})


async def response_to(fields: Fields, pieces: Iterable[bytes], *, held_bytes: int = 0, **scope: Any) -> list[Message]:
    """The response to one request; after its pieces the client sends nothing more."""
    budget = Budget(BOUNDS.max_bodies_bytes, held_bytes)
    client = AsgiClient(RequestLimits(reading, BOUNDS, budget), *pieces)
    client.finishes = False
    await client.ask(*fields, **scope)
    assert budget.held_bytes == held_bytes
    return client.sent


CASES: dict[str, tuple[dict[str, Any], int, str, str, str, dict[str, str]]] = {
    "target": (
        {"fields": [], "pieces": [], "raw_path": b"/" * (MAX_TARGET_BYTES + 1)},
        *(414, "target_too_long", INVALID, f"The request target is longer than the {MAX_TARGET_BYTES} bytes "),
        {},
    ),
    "headers": (
        {"fields": [(b"x", b"1" * 2000)], "pieces": []},
        *(431, "headers_too_large", INVALID, "The request headers are larger than the 2000 bytes "),
        {},
    ),
    "fields": (
        {"fields": [(b"a", b"b")] * 129, "pieces": []},
        *(431, "headers_too_large", INVALID, "The request has more than the 128 header fields "),
        {},
    ),
    "body": (
        {"fields": [TEXT], "pieces": [b"a" * (1 << 20), b"a"]},
        *(413, "body_too_large", INVALID, f"The request body is larger than the {1 << 20} bytes "),
        {},
    ),
    "slow": (
        {"fields": [TEXT], "pieces": [b"a"]},
        *(408, "body_too_slow", "timeout_error", "The request body came too slowly: 10 bytes per second are needed."),
        {"connection": "close"},
    ),
    "one too many": (
        {"fields": [TEXT], "pieces": [b"aa"], "held_bytes": (1 << 21) - 1},
        *(
            503,
            "bodies_full",
            "service_unavailable_error",
            "Too many request bodies are being received. Try again in 2 s",
        ),
        {"retry-after": "2", "x-headway-reason": "bodies_full"},
    ),
    "objects": (
        {"fields": [JSON], "pieces": [b"{}," * (MAX_BRACKETS + 1)]},
        *(400, "body_too_complex", INVALID, f"The JSON body has more than the {MAX_BRACKETS} objects and arrays "),
        {},
    ),
    "strings, of a body that names no type": (
        {"fields": [], "pieces": [b'"",' * (MAX_STRINGS + 1)]},
        *(400, "body_too_complex", INVALID, f"The JSON body has more than the {MAX_STRINGS} strings "),
        {},
    ),
    "levels": (
        {"fields": [JSON], "pieces": [b"[" * (MAX_DEPTH + 1)]},
        *(400, "body_too_complex", INVALID, f"The JSON body has more than the {MAX_DEPTH} levels "),
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
@on_virtual_time
async def test_a_refusal_says_what_was_too_much(name: str) -> None:
    """One JSON error in the API's own form, with the bound in its words, and nothing after it."""
    given, status, code, kind, words, headers = CASES[name]
    start, body = await response_to(**given)
    assert start["status"] == status
    error = json.loads(body["body"])["error"]
    assert (error["code"], error["type"]) == (code, kind)
    assert error["message"].startswith(words)
    fields = {key.decode(): value.decode() for key, value in start["headers"]}
    assert headers.items() <= fields.items()
    assert fields["content-type"] == "application/json"


@on_virtual_time
async def test_what_is_no_request_passes_untouched() -> None:
    """The lifespan of the server has its own messages."""
    seen: list[object] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend((scope["type"], receive, send))

    async def receive() -> Message:
        return {"type": "lifespan.startup"}

    async def send(message: Message) -> None:
        seen.append(message)

    await RequestLimits(application, BOUNDS, Budget(1))({"type": "lifespan"}, receive, send)
    assert seen == ["lifespan", receive, send]
