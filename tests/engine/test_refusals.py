"""Refused requests as the client sees them: the true status, and Retry-After."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from client_connections import CONNECTIONS
from generation_requests import ROUTES, body
from running_server import RunningServer, wait_until

LONG_TOKENS = 1500


def _occupancy(server: RunningServer) -> tuple[int, int]:
    status = server.status()
    return status["in_flight"], status["queued"]


@asynccontextmanager
async def busy(server: RunningServer, client: httpx.AsyncClient, waiting: int) -> AsyncIterator[None]:
    """Under the tight preset: both seats taken by long requests, and this many realtime requests waiting."""
    route = "/v1/completions"
    server.use("tight")
    headers = {"x-headway-class": "realtime"}

    async def hold() -> None:
        await client.post(server.url + route, json=body(route, LONG_TOKENS), headers=headers)

    holders = [asyncio.create_task(hold()) for _ in range(2 + waiting)]
    try:
        await asyncio.to_thread(wait_until, lambda: _occupancy(server) == (2, waiting), "both seats are taken")
        yield
    finally:
        for holder in holders:
            holder.cancel()
        await asyncio.gather(*holders, return_exceptions=True)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("route", ROUTES)
async def test_a_full_queue_is_a_429_with_retry_after(server: RunningServer, route: str, stream: bool) -> None:
    """No room: 429, a whole-second Retry-After and the reason, before any byte of a stream."""
    async with httpx.AsyncClient(timeout=60, limits=CONNECTIONS) as client, busy(server, client, waiting=4):
        answer = await client.post(
            server.url + route, json=body(route, 4, stream=stream), headers={"x-headway-class": "batch"}
        )
    assert answer.status_code == 429, answer.text
    assert 1 <= int(answer.headers["retry-after"]) <= 30
    assert answer.headers["x-headway-reason"] == "queue_full"
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert error["type"] == "rate_limit_error"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("route", ROUTES)
async def test_a_queue_timeout_is_a_503_with_retry_after(server: RunningServer, route: str, stream: bool) -> None:
    """Time ran out while waiting: 503, also for a stream whose 200 was held back."""
    async with httpx.AsyncClient(timeout=60, limits=CONNECTIONS) as client, busy(server, client, waiting=0):
        answer = await client.post(server.url + route, json=body(route, 4, stream=stream))
    assert answer.status_code == 503, answer.text
    assert answer.headers["x-headway-reason"] == "queue_timeout"
    assert 1 <= int(answer.headers["retry-after"]) <= 30
    assert "error" in answer.json()


@pytest.mark.parametrize("route", ROUTES)
async def test_a_total_timeout_is_a_504_that_says_not_to_retry(server: RunningServer, route: str) -> None:
    """Time ran out while running, nothing sent yet: 504 and x-should-retry: false; the engine aborts the request."""
    headers = {"x-request-timeout-seconds": "0.3"}
    async with httpx.AsyncClient(timeout=60, limits=CONNECTIONS) as client:
        asked = body(route, LONG_TOKENS, prompt="Tell a long story. ")
        answer = await client.post(server.url + route, json=asked, headers=headers)
    assert answer.status_code == 504, answer.text
    assert answer.headers["x-should-retry"] == "false"
    assert answer.headers["x-headway-reason"] == "total_timeout"
    assert "retry-after" not in answer.headers


@pytest.mark.parametrize("route", ROUTES)
async def test_a_total_timeout_in_a_stream_ends_it_with_one_error_event(server: RunningServer, route: str) -> None:
    """Tokens were sent already: the stream ends well-formed, with exactly one error event."""
    before = server.scrape()("headway_outcomes_total", outcome="expired_running")
    async with httpx.AsyncClient(timeout=60, limits=CONNECTIONS) as client:
        answer = await client.post(
            server.url + route,
            json=body(route, LONG_TOKENS, stream=True),
            headers={"x-request-timeout-seconds": "0.6"},
        )
    assert answer.status_code == 200
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    events = [json.loads(line) for line in lines if line != "[DONE]"]
    errors = [event for event in events if "error" in (event, event.get("type")) or event.get("error")]
    assert len(events) > 1
    assert len(errors) == 1
    assert errors[0] is events[-1]
    server.settle()
    assert server.scrape()("headway_outcomes_total", outcome="expired_running") == before + 1


@pytest.mark.parametrize("value", ["0", "-1", "nan", "soon"])
def test_a_bad_timeout_is_a_400_that_names_the_header(server: RunningServer, value: str) -> None:
    """An invalid time-out is refused with the header's name, and takes no ticket."""
    before = server.scrape()("headway_arrivals_total")
    answer = httpx.post(
        f"{server.url}/v1/completions",
        json=body("/v1/completions", 2),
        headers={"x-request-timeout-seconds": value},
        timeout=60,
    )
    assert answer.status_code == 400
    assert "x-request-timeout-seconds" in answer.json()["error"]["message"]
    assert server.scrape()("headway_arrivals_total") == before
