"""The middleware around a small application with a fake engine: true statuses, before the first byte where possible."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from virtual_time import on_virtual_time

import headway
from headway.engine.fake import FakeEngine, FakeParams
from headway.http.inference.middleware import AdmissionMiddleware
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
ROUTES = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")


class Site:
    """An application whose routes generate with a fake engine at one seat, one token a second."""

    def __init__(self, **middleware: Any) -> None:
        table = {"name": "tight", "default_class": "normal", "batching": {"seats": 1, "window_ms": 0}}
        preset = Preset.model_validate(table | {"queue": {"max_waiting": 2, "make_room": False}, "classes": CLASSES})
        self.engine = headway.wrap(FakeEngine(step_s=1), preset=preset)
        self.control = self.engine.headway
        self.bodies: list[bytes] = []
        routes = [Route(path, self.generate, methods=["POST"]) for path in ROUTES]
        routes += [Route("/free", self.free, methods=["POST"]), Route("/broken", self.broken, methods=["POST"])]
        self.app = AdmissionMiddleware(Starlette(routes=routes), preset=lambda: self.control.preset, **middleware)

    async def generate(self, request: Request) -> Response:
        self.bodies.append(await request.body())
        asked = json.loads(self.bodies[-1])
        self.control.gateway.reserve(headway.admission.REQUEST_CONTEXT.get(), 1)
        outputs = self.engine.generate("p", FakeParams(asked.get("max_tokens", 3)), "id")
        if not asked.get("stream"):
            return JSONResponse({"tokens": len([output async for output in outputs])})

        async def events() -> AsyncIterator[str]:
            async for output in outputs:
                yield f"data: {len(output.tokens)}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    async def free(self, request: Request) -> Response:
        return JSONResponse({"size": len(await request.body())})

    async def broken(self, request: Request) -> Response:
        self.control.gateway.reserve(headway.admission.REQUEST_CONTEXT.get(), 1)
        raise RuntimeError("a handler's own fault")

    def outcomes(self) -> dict[str, int]:
        return {name: number for one in self.control.status().classes for name, number in one.outcomes.items()}

    async def post(
        self, path: str, body: Any = None, headers: dict[str, str] | None = None, chunks: int = 1, leave_s: float = 1e9
    ) -> tuple[int, dict[str, str], bytes]:
        """Drive the ASGI callable by hand: status, headers and body as the client got them."""
        raw = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        pieces = [raw[index::chunks] for index in range(1)] if chunks == 1 else [raw[:3], raw[3:7], raw[7:]]
        fields = {"content-type": "application/json", **(headers or {})}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in fields.items()],
        }
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if pieces:
                return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}
            await asyncio.sleep(leave_s)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.app(scope, receive, send)  # type: ignore[arg-type]  # a dict is a message
        starts = [message for message in sent if message["type"] == "http.response.start"]
        assert len(starts) <= 1, "two response starts"
        content = b"".join(message.get("body", b"") for message in sent)
        found = {name.decode(): value.decode() for name, value in starts[0]["headers"]} if starts else {}
        return (starts[0]["status"] if starts else 0), found, content

    async def settled(self) -> None:
        """No state remains."""
        await asyncio.sleep(5)
        status = self.control.status()
        assert (status.seats_taken, status.queued, status.in_flight) == (0, 0, 0)
        assert self.engine.running == {}


@pytest.mark.parametrize("stream", [False, True])
@on_virtual_time
async def test_a_served_request_says_how(stream: bool) -> None:
    """Class, wait in milliseconds and preset stand in the headers, streaming and not."""
    site = Site()
    first = asyncio.create_task(site.post(ROUTES[0], {"max_tokens": 2}))
    await asyncio.sleep(0.5)
    status, headers, content = await site.post(ROUTES[0], {"stream": stream}, {"x-headway-class": "realtime"})
    assert (status, headers["x-headway-class"], headers["x-headway-preset"]) == (200, "realtime", "tight")
    assert int(headers["x-headway-queue-ms"]) == 1500
    assert content.count(b"data:") == (3 if stream else 0)
    await first
    await site.settled()
    assert site.outcomes() == {"completed": 1}  # one in each of two classes


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ROUTES)
@on_virtual_time
async def test_a_full_queue_is_a_429_in_the_words_of_the_api(path: str, stream: bool) -> None:
    """Status, Retry-After, reason and class, and the error body of that API."""
    site = Site()
    others = [asyncio.create_task(site.post(path, {"max_tokens": 9})) for _ in range(2)]
    await asyncio.sleep(0.1)
    status, headers, content = await site.post(path, {"stream": stream})
    assert status == 429
    assert 1 <= int(headers["retry-after"]) <= 30
    assert (headers["x-headway-reason"], headers["x-headway-class"]) == ("class_queue_full", "normal")
    answer = json.loads(content)
    assert answer["error"]["type"] == "rate_limit_error"
    assert (answer.get("type") == "error") == path.endswith("/messages")
    await asyncio.gather(*others)
    await site.settled()


@on_virtual_time
async def test_vllm_status_codes_are_a_setting() -> None:
    """The compatible mode answers a full queue with 503, and the same reason and Retry-After."""
    site = Site(queue_full_status=HTTPStatus.SERVICE_UNAVAILABLE)
    others = [asyncio.create_task(site.post(ROUTES[0], {"max_tokens": 9})) for _ in range(2)]
    await asyncio.sleep(0.1)
    status, headers, _ = await site.post(ROUTES[0])
    assert (status, headers["x-headway-reason"]) == (503, "class_queue_full")
    await asyncio.gather(*others)


@pytest.mark.parametrize("path", ROUTES)
@on_virtual_time
async def test_a_queue_timeout_is_a_503_for_a_stream_too(path: str) -> None:
    """The 200 of a stream is held while the request waits, so the refusal is a true one."""
    site = Site()
    first = asyncio.create_task(site.post(path, {"max_tokens": 30}))
    await asyncio.sleep(0.1)
    began_s = asyncio.get_running_loop().time()
    status, headers, _ = await site.post(path, {"stream": True})
    assert (status, headers["x-headway-reason"]) == (503, "queue_timeout")
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(10, abs=0.01)
    await first
    await site.settled()


@pytest.mark.parametrize("path", ROUTES)
@on_virtual_time
async def test_a_total_timeout_is_a_504_before_the_first_token_and_one_event_after(path: str) -> None:
    """Nothing sent yet: 504, do not retry. Tokens sent: exactly one error event ends the stream."""
    site = Site()
    asked = {"stream": True, "max_tokens": 9}
    status, headers, _ = await site.post(path, asked, {"x-request-timeout-seconds": "0.5"})
    assert (status, headers["x-should-retry"]) == (504, "false")
    assert "retry-after" not in headers
    status, _, content = await site.post(path, asked, {"x-request-timeout-seconds": "3.5"})
    assert status == 200
    assert content.count(b"total_timeout") >= 1
    assert content.count(b"error") >= 1
    assert content.startswith(b"data: 1\n\ndata: 2\n\ndata: 3\n\n")
    assert content.count(b"event: error" if path in ROUTES[2:] else b'"error"') == 1
    await site.settled()
    assert site.outcomes() == {"expired_running": 2}


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({"x-headway-class": "batch"}, {"service_tier": "priority"}, "batch"),
        ({}, {"service_tier": "priority"}, "realtime"),
        ({}, {"service_tier": "flex"}, "batch"),
        ({}, {"service_tier": "unheard-of"}, "normal"),
        ({}, {"service_tier": None}, "normal"),
        ({}, {"text": '"service_tier"'}, "normal"),
        ({}, {}, "normal"),
    ],
)
@on_virtual_time
async def test_the_class_comes_from_header_then_tier_then_default(
    headers: dict[str, str], body: dict[str, Any], expected: str
) -> None:
    """The header wins, then ``service_tier``, then the preset's default."""
    site = Site()
    assert (await site.post(ROUTES[0], body, headers))[1]["x-headway-class"] == expected


@pytest.mark.parametrize(
    ("headers", "body", "status", "says"),
    [
        ({"x-headway-class": "vip"}, {}, 400, "realtime, normal, batch"),
        ({"x-headway-class": "réaltime"}, {}, 400, "x-headway-class"),
        ({"x-request-timeout-seconds": "soon"}, {}, 400, "x-request-timeout-seconds"),
        ({"x-request-timeout-seconds": "-1"}, {}, 400, "x-request-timeout-seconds"),
        ({"x-request-timeout-seconds": "nan"}, {}, 400, "x-request-timeout-seconds"),
        ({"x-request-timeout-seconds": "1e999"}, {}, 400, "x-request-timeout-seconds"),
        ({"x-headway-class": "r" * 65}, {}, 400, "x-headway-class: at most 64 characters"),
        ({"x-headway-tenant": "t" * 129}, {}, 400, "x-headway-tenant: at most 128 characters"),
        ({"x-llm-d-inference-ttl": "1" * 30_000}, {}, 400, "x-llm-d-inference-ttl: at most 64 characters"),
        ({"x-stainless-read-timeout": "1" * 65}, {}, 400, "x-stainless-read-timeout: at most 64 characters"),
    ],
)
@on_virtual_time
async def test_bad_input_is_refused_and_costs_no_ticket(
    headers: dict[str, str], body: Any, status: int, says: str
) -> None:
    """One clear sentence that names the header, and nothing reaches the desk."""
    site = Site()
    found, _, content = await site.post(ROUTES[0], body, headers)
    assert found == status
    assert says in json.loads(content)["error"]["message"]
    assert sum(one.arrived for one in site.control.status().classes) == 0


@on_virtual_time
async def test_the_body_arrives_unchanged_in_one_piece_or_many() -> None:
    """What the middleware read it hands on, byte for byte."""
    site = Site()
    raw = json.dumps({"max_tokens": 1, "text": "\u00e4 \u4f60", "service_tier": "flex"}).encode()
    for chunks in (1, 3):
        assert (await site.post(ROUTES[0], raw, chunks=chunks))[0] == 200
    assert site.bodies == [raw, raw]


@on_virtual_time
async def test_a_disconnect_during_a_stream_frees_its_seat() -> None:
    """A disconnect after 2.5 s of a stream: the engine aborts it, the seat is free, the outcome is cancelled."""
    site = Site()
    await site.post(ROUTES[0], {"stream": True, "max_tokens": 50}, leave_s=2.5)
    await site.settled()
    assert site.outcomes() == {"cancelled_running": 1}


@on_virtual_time
async def test_a_handler_that_fails_settles_its_request_as_failed() -> None:
    """An exception of the application goes on as it was, and leaves no seat taken."""
    site = Site()
    with pytest.raises(RuntimeError, match="own fault"):
        await site.post("/broken")
    await site.settled()
    assert site.outcomes() == {"failed": 1}


@on_virtual_time
async def test_a_request_without_a_ticket_passes_untouched() -> None:
    """No engine call, no ticket, no headers of Headway."""
    site = Site()
    status, headers, content = await site.post("/free", {"a": 1})
    assert (status, json.loads(content)) == (200, {"size": 8})
    assert not [name for name in headers if name.startswith("x-headway")]
