"""The middleware around a small application with a fake engine: true statuses, before the first byte where possible."""

from __future__ import annotations

import asyncio
import json

import pytest
from asgi_client import JSON, AsgiClient
from engines import assert_no_residue, outcomes
from generating_site import PATHS, GeneratingSite
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from virtual_time import on_virtual_time

import headway
from headway_policies import Preset

CLASSES = {
    name: {
        "priority": priority,
        "max_waiting": 1,
        "queue_timeout_s": 10.0,
        "total_timeout_s": 100.0,
        "service_tiers": tiers,
    }
    for name, priority, tiers in (("realtime", 3, ["priority"]), ("normal", 2, ["default"]), ("batch", 1, ["flex"]))
}


class Site(GeneratingSite):
    """Routes at one seat that ask for it before their answer begins, as vLLM's do, and two routes beside them."""

    def __init__(self) -> None:
        table = {"name": "tight", "default_class": "normal", "batching": {"seats": 1, "window_ms": 0}}
        preset = Preset.model_validate(table | {"queue": {"max_waiting": 2, "make_room": False}, "classes": CLASSES})
        beside = [Route(f"/{one.__name__}", one, methods=["POST"]) for one in (self.free, self.broken)]
        super().__init__(preset, *beside)
        self.bodies: list[bytes] = []

    async def generate(self, request: Request) -> Response:
        self.bodies.append(await request.body())
        self.control.gateway.reserve(headway.admission.REQUEST_CONTEXT.get(), 1)
        return await super().generate(request)

    async def free(self, request: Request) -> Response:
        return JSONResponse({"size": len(await request.body())})

    async def broken(self, request: Request) -> Response:
        self.control.gateway.reserve(headway.admission.REQUEST_CONTEXT.get(), 1)
        raise RuntimeError("a handler's own fault")


@pytest.mark.parametrize("stream", [False, True])
@on_virtual_time
async def test_a_served_request_says_how(stream: bool) -> None:
    """Class, wait in milliseconds and preset stand in the headers, streaming and not."""
    site = Site()
    first = asyncio.create_task(site.post({"max_tokens": 2}))
    await asyncio.sleep(0.5)
    status, headers, content = await site.post({"stream": stream}, x_headway_class="realtime")
    assert (status, headers["x-headway-class"], headers["x-headway-preset"]) == (200, "realtime", "tight")
    assert int(headers["x-headway-queue-ms"]) == 1500
    assert content.count(b"data:") == (3 if stream else 0)
    await first
    await assert_no_residue(site.control)
    assert outcomes(site.control) == {"completed": 2}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
@on_virtual_time
async def test_a_full_queue_is_a_429_in_the_words_of_the_api(path: str, stream: bool) -> None:
    """Status, Retry-After, reason and class, and the error body of that API."""
    site = Site()
    others = [asyncio.create_task(site.post({"max_tokens": 9}, path)) for _ in range(2)]
    await asyncio.sleep(0.1)
    status, headers, content = await site.post({"stream": stream}, path)
    assert status == 429
    assert 1 <= int(headers["retry-after"]) <= 30
    assert (headers["x-headway-reason"], headers["x-headway-class"]) == ("class_queue_full", "normal")
    answer = json.loads(content)
    assert answer["error"]["type"] == "rate_limit_error"
    assert (answer.get("type") == "error") == path.endswith("/messages")
    await asyncio.gather(*others)
    await assert_no_residue(site.control)


@pytest.mark.parametrize("path", PATHS)
@on_virtual_time
async def test_a_total_timeout_is_a_504_before_the_first_token_and_one_event_after(path: str) -> None:
    """Nothing sent yet: 504, do not retry. Tokens sent: exactly one error event ends the stream."""
    site = Site()
    asked = {"stream": True, "max_tokens": 9}
    status, headers, _ = await site.post(asked, path, x_request_timeout_seconds="0.5")
    assert (status, headers["x-should-retry"]) == (504, "false")
    assert "retry-after" not in headers
    status, _, content = await site.post(asked, path, x_request_timeout_seconds="3.5")
    assert status == 200
    assert content.count(b"total_timeout") >= 1
    assert content.count(b"error") >= 1
    assert content.startswith(b"data: 1\n\ndata: 2\n\ndata: 3\n\n")
    assert content.count(b"event: error" if path in PATHS[2:] else b'"error"') == 1
    assert (b"[DONE]" in content) == (path in PATHS[:2])
    await assert_no_residue(site.control)
    assert outcomes(site.control) == {"expired_running": 2}


@pytest.mark.parametrize(
    ("header", "value", "says"),
    [
        ("x_headway_class", "vip", "realtime, normal, batch"),
        ("x_headway_class", "r\xe9altime", "x-headway-class"),
        ("x_headway_class", "r" * 65, "x-headway-class: at most 64 characters"),
        ("x_request_timeout_seconds", "soon", "x-request-timeout-seconds"),
    ],
)
@on_virtual_time
async def test_bad_input_is_refused_and_costs_no_ticket(header: str, value: str, says: str) -> None:
    """One clear sentence that names the header, and nothing reaches the desk."""
    site = Site()
    client = await site.ask(**{header: value})
    assert (client.status, says in client.error["message"]) == (400, True)
    assert outcomes(site.control) == {}


@on_virtual_time
async def test_the_body_arrives_unchanged_in_one_piece_or_many() -> None:
    """The middleware hands on the body that it read, byte for byte."""
    site = Site()
    raw = json.dumps({"max_tokens": 1, "text": "\u00e4 \u4f60", "service_tier": "flex"}).encode()
    for pieces in ([raw], [raw[:3], raw[3:7], raw[7:]]):
        assert await AsgiClient(site.app, *pieces).ask(JSON) == 200
    assert site.bodies == [raw, raw]


@on_virtual_time
async def test_a_disconnect_during_a_stream_frees_its_seat() -> None:
    """A disconnect after 2.5 s of a stream: the engine aborts it, the seat is free, the outcome is cancelled."""
    site = Site()
    client = AsgiClient(site.app, b'{"stream": true, "max_tokens": 50}')
    asyncio.get_running_loop().call_later(2.5, client.leaves.set)
    await client.ask(JSON)
    await assert_no_residue(site.control)
    assert outcomes(site.control) == {"cancelled_running": 1}


@on_virtual_time
async def test_a_handler_that_fails_settles_its_request_as_failed() -> None:
    """An exception of the application goes on as it was, and leaves no seat taken."""
    site = Site()
    with pytest.raises(RuntimeError, match="own fault"):
        await site.post(path="/broken")
    await assert_no_residue(site.control)
    assert outcomes(site.control) == {"failed": 1}


@on_virtual_time
async def test_a_request_without_a_ticket_passes_untouched() -> None:
    """No engine call, no ticket, no headers of Headway."""
    site = Site()
    status, headers, content = await site.post({"a": 1}, "/free")
    assert (status, json.loads(content)) == (200, {"size": 8})
    assert not [name for name in headers if name.startswith("x-headway")]
