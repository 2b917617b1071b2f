"""The fallback client: what it forwards to the other model and what not, and that nothing is lost before the first
byte."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from asgi_client import CHAT
from fallback_calls import KEY, SECRET, Client, request, send_on, upstream
from starlette.types import Message, Receive, Scope, Send
from until import until
from upstream_stand_in import CHUNKS, DONE, elsewhere

from headway.fallback.answer import ForwardResult
from headway.fallback.client import (
    MAX_JSON_ELEMENTS,
    MAX_REQUEST_BYTES,
)
from headway.fallback.diverted_request import DivertedRequest
from headway_policies.fallback.circuit_breaker import BreakerState, CircuitBreaker


async def test_an_answer_comes_back_signed() -> None:
    """The body as it is, Headway's headers, none of the other server's; the model replaced, everything else as
    requested."""
    async with elsewhere(headers={"set-cookie": "x=1", "x-secret": "1"}) as other, upstream(other) as way:
        hop, client = await send_on(way, request(max_tokens=7, priority=3))
        assert (hop, client.body) == (ForwardResult.SERVED, other.body)
        assert client.sent[0]["status"] == 200
        assert client.headers == {
            "content-type": "application/json",
            "content-length": str(len(other.body)),
            "x-headway-class": "normal",
            "x-headway-degraded": "model=small",
        }
        ((path, headers, sent),) = other.seen
        assert (path, sent["model"], sent["max_tokens"]) == (CHAT, "small", 7)
        assert sent["messages"][0]["content"] == SECRET
        assert "priority" not in sent
        assert (headers["authorization"], headers["x-headway-hop"]) == (f"Bearer {KEY}", "1")
        assert headers["traceparent"] == "00-1-2-01"
        assert not {"cookie", "x-evil"} & headers.keys()
        assert "client-key" not in str(headers)


async def test_a_stream_comes_back_event_by_event() -> None:
    """Cut anywhere on its way here, it is handed on in whole events, and each as soon as it is whole."""
    text = b"".join(CHUNKS) + DONE
    pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
    async with elsewhere(pieces=pieces) as other, upstream(other) as way:
        hop, client = await send_on(way, request(stream=True))
    assert (hop, client.body) == (ForwardResult.SERVED, text)
    assert client.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert client.headers["cache-control"] == "no-cache"
    assert client.headers["x-headway-degraded"] == "model=small"
    assert all(not message["body"] or message["body"].endswith(b"\n\n") for message in client.sent[1:])
    assert not client.sent[-1]["more_body"]


BAD: dict[str, dict[str, Any]] = {
    "a server error": {"status": 500},
    "overloaded": {"status": 503},
    "rate limited": {"status": 429},
    "our key is wrong": {"status": 401},
    "a web page": {"content_type": "text/html", "body": b"<html>"},
    "not JSON": {"body": b"{"},
    "not an object": {"body": b"[]"},
    "too deep": {"body": b"[" * 100_000},
    "too many elements": {"body": b'{"a":[' + b"1," * MAX_JSON_ELEMENTS + b"1]}"},
    "too many digits": {"body": b'{"a":' + b"1" * 500 + b"}"},
    "a type that no parser can read": {"content_type": "application/json" + "(" * 7000},
    "packed": {"headers": {"content-encoding": "gzip"}},
    "too slow": {"wait_s": 30.0},
}


@pytest.mark.parametrize("fault", BAD.values(), ids=BAD)
async def test_a_bad_answer_is_not_served_and_counts(fault: dict[str, Any]) -> None:
    """Nothing was sent to the client, so its own refusal is still possible; the breaker counts the failure."""
    slow = "wait_s" in fault
    timeout_s = 0.5 if slow else 30.0
    opened = CircuitBreaker(failures=1)
    async with elsewhere(**fault) as other, upstream(other, breaker=opened, timeout_s=timeout_s) as way:
        hop, client = await send_on(way, request())
        assert (hop, client.sent) == (ForwardResult.NOT_SERVED, [])
        assert way.breaker.state is BreakerState.OPEN
        assert way.in_flight == 0
        assert len(other.seen) == 1 or slow  # on a busy machine the time may be over before it is asked


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_request_that_is_refused_for_itself_does_not_open_the_breaker(status: int) -> None:
    """The other server is reachable."""
    async with elsewhere(status=status) as other, upstream(other, breaker=CircuitBreaker(failures=1)) as way:
        assert (await send_on(way, request()))[0] is ForwardResult.NOT_SERVED
        assert way.breaker.state is BreakerState.CLOSED


async def test_an_unreachable_server_serves_nothing() -> None:
    """A dead address costs a few tries, and then none until the breaker lets a probe go."""
    async with elsewhere() as other:
        url = other.url
    now_s = 100.0
    async with upstream(url, now_s=lambda: now_s) as way:
        hops = [(await send_on(way, request()))[0] for _ in range(5)]
        assert hops == [ForwardResult.NOT_SERVED] * 5
        assert way.breaker.state is BreakerState.OPEN


@contextmanager
def unreachable() -> Iterator[str]:
    """An address that takes no connection and refuses none: its queue of connections is full."""
    with ExitStack() as sockets:
        listener = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            caller = sockets.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


async def test_an_unaccepted_connection_is_given_up_long_before_the_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time-out is for the answer; a connection that does not come about has a short one of its own."""
    monkeypatch.setattr("headway.fallback.client._CONNECT_S", 0.05)
    with unreachable() as url:
        async with asyncio.timeout(30), upstream(url, timeout_s=3600.0) as way:
            assert (await send_on(way, request()))[0] is ForwardResult.NOT_SERVED


async def test_no_proxy_of_the_environment_sees_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP_PROXY is meant for the way out: the other model is asked directly, with the key and the prompt."""
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with elsewhere() as proxy, elsewhere() as other, upstream(other) as way:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1"))
        assert (await send_on(way, request()))[0] is ForwardResult.SERVED
        assert (len(other.seen), proxy.seen) == (1, [])


async def test_it_comes_back_with_a_probe() -> None:
    """After the rest one request goes; its success lets the others go again."""
    clock = [0.0]
    async with elsewhere(status=500) as other, upstream(other, now_s=lambda: clock[0]) as way:
        for _ in range(6):
            await send_on(way, request())
        assert len(other.seen) == 3
        other.status, clock[0] = 200, 5.0
        assert [(await send_on(way, request()))[0] for _ in range(2)] == [ForwardResult.SERVED] * 2
        assert way.breaker.state is BreakerState.CLOSED


@pytest.mark.parametrize(
    ("body", "more"),
    [
        (request(), {"path": "/v1/responses"}),
        (request(), {"path": "/v1/chat/completions/batch"}),
        (request(), {"headers": {"x-headway-hop": "1"}}),
        (request(), {"headers": {"x-headway-hop": ""}}),
        (b"{", {}),
        (b"[]", {}),
        (b"[" * 100_000, {}),
        (request(content="x" * MAX_REQUEST_BYTES), {}),
        (request(content=[0] * MAX_JSON_ELEMENTS), {}),
        (request(**{f"k{number}": 1 for number in range(MAX_JSON_ELEMENTS // 2)}), {}),
        (request(content="," * MAX_JSON_ELEMENTS), {}),
        (request(content=int("1" * 500)), {}),
    ],
    ids=[
        "another route", "a batch", "a second hop", "an empty hop", "no JSON", "no object", "too deep", "bytes",
        "elements", "keys", "commas", "digits",
    ],
)  # fmt: skip
async def test_what_cannot_be_sent_on_stays(body: bytes, more: dict[str, Any]) -> None:
    """Nor what would block the loop while it is parsed: the other server is never called, and nothing is held."""
    async with elsewhere() as other, upstream(other) as way:
        assert (await send_on(way, body, **more))[0] is ForwardResult.NOT_SERVED
        assert (other.seen, way._held.size_bytes) == ([], 0)


@pytest.mark.parametrize("fault", [{"cut": True, "pieces": CHUNKS}, {"pieces": CHUNKS}], ids=["cut", "unfinished"])
async def test_a_stream_that_breaks_off_ends_with_one_error_event(fault: dict[str, Any]) -> None:
    """The tokens that came are the client's, then one error; never a second answer."""
    async with elsewhere(**fault) as other, upstream(other, breaker=CircuitBreaker(failures=1)) as way:
        hop, client = await send_on(way, request(stream=True))
    assert hop is ForwardResult.BROKEN_OFF
    assert client.body.startswith(b"".join(CHUNKS))
    events = client.body.removeprefix(b"".join(CHUNKS)).split(b"\n\n")
    assert json.loads(events[0].removeprefix(b"data: "))["error"] == {
        "message": "The fallback model broke off its answer.", "type": "server_error", "param": None,
        "code": "fallback_broke_off",
    }  # fmt: skip
    assert events[1:] == [b"data: [DONE]", b""]
    assert way.breaker.state is BreakerState.OPEN
    assert sum(message["type"] == "http.response.start" for message in client.sent) == 1
    assert [message["more_body"] for message in client.sent[1:]] == [True] * (len(client.sent) - 2) + [False]


async def test_no_redirect_is_followed() -> None:
    """A redirect is not followed: neither key nor prompt goes to an address that was not configured."""
    async with elsewhere() as third:
        to_third = {"location": f"{third.url}/chat/completions"}
        async with elsewhere(status=307, headers=to_third) as other, upstream(other) as way:
            assert (await send_on(way, request()))[0] is ForwardResult.NOT_SERVED
            assert (len(other.seen), third.seen) == (1, [])


async def test_every_request_has_a_connection_of_its_own() -> None:
    """One that was kept open may be dead unnoticed."""
    async with elsewhere() as other, upstream(other) as way:
        for _ in range(3):
            assert (await send_on(way, request()))[0] is ForwardResult.SERVED
    assert len(set(other.peers)) == 3


async def test_the_log_says_when_the_circuit_breaker_opens_and_closes(caplog: pytest.LogCaptureFixture) -> None:
    """As a warning when it is closed to requests, as news when it opens again, and nothing where nothing changes."""
    clock = [0.0]
    with caplog.at_level(logging.INFO, "headway.fallback.client"):
        breaker = CircuitBreaker(failures=1)
        async with elsewhere(status=500) as other, upstream(other, now_s=lambda: clock[0], breaker=breaker) as way:
            await send_on(way, request())
            await send_on(way, request())
            other.status, clock[0] = 200, 5.0
            for _ in range(3):
                await send_on(way, request())
    said = [
        (record.levelname, record.getMessage()) for record in caplog.records if "circuit breaker" in record.getMessage()
    ]
    text = "the fallback model's circuit breaker is now"
    assert said == [("WARNING", f"{text} open"), ("INFO", f"{text} closed")]


@pytest.mark.parametrize("streams", [False, True])
async def test_a_client_disconnect_cancels_its_request(streams: bool) -> None:
    """The other server sees the connection close, and the breaker counts nothing."""
    slow: dict[str, Any] = {"between_s": 30.0} if streams else {"wait_s": 30.0}
    async with elsewhere(**slow) as other, upstream(other, breaker=CircuitBreaker(failures=1)) as way:
        client = Client()
        sending = asyncio.create_task(send_on(way, request(stream=streams), client))
        await until(lambda: client.sent if streams else other.seen)
        client.leaves.set()
        hop, _ = await asyncio.wait_for(sending, 5)
        assert (hop, way.breaker.state, way.in_flight) == (ForwardResult.CLIENT_GONE, BreakerState.CLOSED, 0)
        await asyncio.wait_for(other.left.wait(), 60)


async def test_a_client_that_is_gone_when_the_answer_comes() -> None:
    """A server that reports the error itself is understood, too."""

    async def gone(message: Message) -> None:
        raise OSError("closed")

    async with elsewhere() as other, upstream(other, breaker=CircuitBreaker(failures=1)) as way:
        hop = await way.serve(DivertedRequest(CHAT, request(), {}, Client().receive, gone, "normal"))
        assert (hop, way.breaker.state) == (ForwardResult.CLIENT_GONE, BreakerState.CLOSED)


async def test_neither_key_nor_prompt_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever goes wrong."""
    caplog.set_level(logging.DEBUG)
    for fault in ({"status": 500}, {"body": b"{"}, {}):
        async with elsewhere(**fault) as other, upstream(other) as way:
            await send_on(way, request())
    assert "fallback model" in caplog.text
    for secret in (KEY, SECRET, "client-key"):
        assert secret not in caplog.text
        assert secret not in repr(way._settings)


async def test_through_a_real_server_it_streams() -> None:
    """uvicorn between: the first event arrives while the other model is still writing."""
    async with elsewhere(between_s=0.1) as other, upstream(other) as way:

        async def sends_on(scope: Scope, receive: Receive, send: Send) -> None:
            body = (await receive())["body"]
            asked = DivertedRequest(scope["path"], body, {}, receive, send, "normal")
            assert await way.serve(asked) is ForwardResult.SERVED

        async with (
            served(sends_on) as url,
            httpx.AsyncClient() as client,
            client.stream("POST", url + CHAT, content=request(stream=True)) as answer,
        ):
            running = [other.running async for line in answer.aiter_lines() if line]
    assert len(running) == 6
    assert running[0] == 1


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """A real web server on a free loopback port; gives its URL."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off", timeout_graceful_shutdown=1))
    running = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await running
