"""Refused requests as the client sees them: the true status, and Retry-After."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import httpx
import pytest
from client_connections import CONNECTIONS
from engine_parts import engine_core
from generation_requests import ROUTES, body
from running_server import RunningServer, wait_until

LONG_TOKENS = 1500


@asynccontextmanager
async def paused(server: RunningServer, client: httpx.AsyncClient, waiting: int = 0) -> AsyncIterator[None]:
    """Under the tight preset: nothing is dispatched, and this many realtime requests wait."""
    server.use("tight")
    assert server.admin("POST", "pause", json={"reason": "a test"}).status_code == 200
    route, headers = ROUTES[0], {"x-headway-class": "realtime"}
    others = [
        asyncio.create_task(client.post(server.url + route, json=body(route, 4), headers=headers))
        for _ in range(waiting)
    ]
    try:
        await asyncio.to_thread(wait_until, lambda: server.status()["queued"] == waiting, "the others wait")
        yield
    finally:
        server.admin("POST", "resume", json={"reason": "a test"})
        await asyncio.gather(*others)


async def on_every_route(
    server: RunningServer, client: httpx.AsyncClient, max_tokens: int, headers: dict[str, str], *, stream: bool
) -> dict[str, httpx.Response]:
    """The answer of each generating route to the same request, all at once."""
    asked = (
        client.post(server.url + one, json=body(one, max_tokens, stream=stream), headers=headers) for one in ROUTES
    )
    return dict(zip(ROUTES, await asyncio.gather(*asked), strict=True))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_full_queue_is_a_429_with_retry_after(server: RunningServer, stream: bool) -> None:
    """No room: 429, a whole-second Retry-After and the reason, before any byte of a stream."""
    async with httpx.AsyncClient(timeout=60, limits=CONNECTIONS) as client, paused(server, client, waiting=4):
        answers = await on_every_route(server, client, 4, {"x-headway-class": "batch"}, stream=stream)
    for route, answer in answers.items():
        assert answer.status_code == 429, (route, answer.text)
        assert 1 <= int(answer.headers["retry-after"]) <= 30
        assert answer.headers["x-headway-reason"] == "queue_full"
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["error"]["type"] == "rate_limit_error"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_queue_timeout_is_a_503_with_retry_after(server: RunningServer, stream: bool) -> None:
    """Time ran out while waiting: 503, also for a stream whose 200 was held back."""
    async with httpx.AsyncClient(timeout=60, limits=CONNECTIONS) as client, paused(server, client):
        answers = await on_every_route(server, client, 4, {}, stream=stream)
    for route, answer in answers.items():
        assert answer.status_code == 503, (route, answer.text)
        assert answer.headers["x-headway-reason"] == "queue_timeout"
        assert 1 <= int(answer.headers["retry-after"]) <= 30
        assert "error" in answer.json()


@contextmanager
def computing_nothing(server: RunningServer) -> Iterator[None]:
    """The engine's process is stopped: what runs in it has no end, however fast the machine is."""
    core = engine_core(server)
    core.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        core.send_signal(signal.SIGCONT)


async def lines_of(
    server: RunningServer, client: httpx.AsyncClient, route: str, timeout_s: float, began: asyncio.Barrier
) -> list[str]:
    """The lines of a stream; with its first one the request has a token."""
    lines = list[str]()
    async with client.stream(
        "POST",
        server.url + route,
        json=body(route, LONG_TOKENS, stream=True),
        headers={"x-request-timeout-seconds": str(timeout_s)},
    ) as answer:
        assert answer.status_code == 200, route
        async for line in answer.aiter_lines():
            if not lines:
                await began.wait()
            lines.append(line)
    return lines


async def test_a_total_timeout_is_a_504_that_says_not_to_retry(server: RunningServer) -> None:
    """Time ran out while running, nothing sent yet: 504 and x-should-retry: false; the engine aborts the request."""
    server.use("fixed8")  # an adaptive limit may have one of them wait for a step
    headers = {"x-request-timeout-seconds": "2"}
    async with httpx.AsyncClient(timeout=60, limits=CONNECTIONS) as client:
        with computing_nothing(server):
            answers = await on_every_route(server, client, LONG_TOKENS, headers, stream=False)
    for route, answer in answers.items():
        assert answer.status_code == 504, (route, answer.text)
        assert answer.headers["x-should-retry"] == "false"
        assert answer.headers["x-headway-reason"] == "total_timeout"
        assert "retry-after" not in answer.headers


async def test_a_total_timeout_in_a_stream_ends_it_with_one_error_event(server: RunningServer) -> None:
    """Tokens were sent already: the stream ends well-formed, with exactly one error event."""
    server.use("fixed8")
    before = server.scrape()("headway_outcomes_total", outcome="expired_running")
    began, clock = asyncio.Barrier(len(ROUTES) + 1), asyncio.get_running_loop().time
    async with httpx.AsyncClient(timeout=60, limits=CONNECTIONS) as client:
        began_s = clock()
        await on_every_route(server, client, 2, {}, stream=True)
        timeout_s = 1 + 4 * (clock() - began_s)  # the first tokens of the same requests take less
        async with asyncio.TaskGroup() as group:
            asked = {route: group.create_task(lines_of(server, client, route, timeout_s, began)) for route in ROUTES}
            await began.wait()
            with computing_nothing(server):
                await asyncio.wait(asked.values())
    for route, found in asked.items():
        lines = [line.removeprefix("data: ") for line in found.result() if line.startswith("data: ")]
        events = [json.loads(line) for line in lines if line != "[DONE]"]
        errors = [event for event in events if "error" in (event, event.get("type")) or event.get("error")]
        assert len(events) > 1, route
        assert errors == events[-1:], route
    server.settle()
    assert server.scrape()("headway_outcomes_total", outcome="expired_running") == before + len(ROUTES)
