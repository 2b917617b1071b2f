"""The middleware's own ASGI messages, compared exactly."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

import pytest
from asgi_client import CHAT, JSON, AsgiClient
from engines import assert_no_residue, outcomes
from generating_site import GeneratingSite
from small_presets import small_preset
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from virtual_time import on_virtual_time

import headway
from headway.engine.fake import FakeEngine, FakeParams
from headway.http.inference.middleware import AdmissionMiddleware
from headway_policies import Ending

MESSAGES = "/v1/messages"
STREAM = {"stream": True, "max_tokens": 9}
FULL = small_preset(1, most_waiting=0)
TIMED_OUT = {"type": "timeout_error", "param": None, "code": "total_timeout"}


def whole(messages: list[Message]) -> tuple[int, dict[bytes, bytes], bytes]:
    """Status, headers and body of an answer that is two messages, each with its keys and no others."""
    start, body = messages
    assert start.keys() == {"type", "status", "headers"}
    assert body.keys() == {"type", "body", "more_body"}
    assert (start["type"], body["type"], body["more_body"]) == ("http.response.start", "http.response.body", False)
    return start["status"], dict(start["headers"]), body["body"]


@on_virtual_time
async def test_a_refusal_before_the_first_byte_is_one_whole_answer() -> None:
    """429 with its length, its reason, its class and when to come back; or 503 where that is the setting."""
    for setting, expected in (({}, 429), ({"queue_full_status": HTTPStatus.SERVICE_UNAVAILABLE}, 503)):
        site = GeneratingSite(FULL, **setting)
        holding = site.control.gateway.gate.enter()
        status, headers, body = whole((await site.ask(STREAM)).sent)
        assert (status, headers[b"content-length"]) == (expected, b"%d" % len(body))
        error = json.loads(body)["error"]
        assert headers[b"x-headway-reason"] == error["code"].encode() == b"queue_full"
        assert " " in error["message"]
        assert headers[b"x-headway-class"] == b"normal"
        assert 1 <= int(headers[b"retry-after"]) <= 60
        holding.leave(Ending.COMPLETED)


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@on_virtual_time
async def test_a_stream_that_is_given_up_ends_with_one_message(path: str) -> None:
    """The error event is the last message, it is marked as such, and has the form of the API it is for."""
    site = GeneratingSite(FULL)
    *_, last = sent = (await site.ask(STREAM, path, x_request_timeout_seconds="2.5")).sent
    assert last.keys() == {"type", "body", "more_body"}
    assert (last["type"], last["more_body"]) == ("http.response.body", False)
    assert [one.get("more_body") for one in sent[1:]] == [True] * (len(sent) - 2) + [False]
    lines = dict(line.split(b": ", 1) for line in last["body"].split(b"\n") if line and b"[DONE]" not in line)
    error = json.loads(lines[b"data"])["error"]
    assert error.pop("message")
    assert error == (TIMED_OUT if path == CHAT else {"type": "timeout_error"})
    await assert_no_residue(site.control)


def client_of(control: headway.Control, application: ASGIApp) -> AsgiClient:
    """A client of an application of a test, behind the middleware."""
    return AsgiClient(AdmissionMiddleware(application, preset=lambda: control.preset), b"{}")


@on_virtual_time
async def test_an_answer_without_a_content_type_passes() -> None:
    """The answer is no stream of events, and gets Headway's headers like any other."""
    engine: Any = headway.wrap(FakeEngine(step_s=1.0), small_preset(1))

    async def bare(scope: Scope, receive: Receive, send: Send) -> None:
        async for _ in engine.generate("p", FakeParams(1), "id"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": False})

    client = client_of(engine.headway, bare)
    await client.ask(JSON)
    start, body = client.sent
    assert {name for name, _ in start["headers"]} == {b"x-headway-class", b"x-headway-queue-ms", b"x-headway-preset"}
    assert body == {"type": "http.response.body", "body": b"x", "more_body": False}


@on_virtual_time
async def test_a_handler_that_fails_because_of_a_disconnect_is_no_failure() -> None:
    """The application detects the disconnect and raises: the request counts as cancelled."""
    engine: Any = headway.wrap(FakeEngine(step_s=1.0), small_preset(1))

    async def offended(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        stream = engine.generate("p", FakeParams(9), "id")
        await anext(stream)
        assert (await receive())["type"] == "http.disconnect"
        raise ConnectionResetError

    client = client_of(engine.headway, offended)
    client.leaves.set()
    with pytest.raises(ConnectionResetError):
        await client.ask(JSON)
    assert outcomes(engine.headway) == {"cancelled_running": 1}
