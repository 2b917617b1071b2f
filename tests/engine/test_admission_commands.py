"""Pause, resume, drain and warm-up of the real engine under load: requests wait, and none is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from client_connections import CONNECTIONS
from concurrent_requests import ask, statuses
from running_server import RunningServer, wait_until

REQUESTS = 6
#: Long enough that the requests still run when an order comes.
TOKENS = 200


@pytest.fixture(autouse=True)
def dispatching(server: RunningServer) -> Iterator[None]:
    """The shared server dispatches again after each test, however it ends."""
    yield
    server.admin("POST", "resume", json={})


def ordered(server: RunningServer, what: str, status: int = 200) -> dict[str, Any]:
    """Send an order, and read its answer."""
    answer = server.admin("POST", what, json={"reason": "a test", "actor": "ann"})
    assert answer.status_code == status, answer.text
    return dict(answer.json())


def results(server: RunningServer, action: str) -> list[str]:
    """The results of an order in the audit log, the newest first."""
    entries = server.admin("GET", "audit?limit=50").json()["entries"]
    return [entry["result"] for entry in entries if entry["action"] == action]


async def test_a_pause_under_load_loses_no_request(server: RunningServer) -> None:
    """Requests that run finish, one that comes meanwhile waits, and the resume answers it."""
    server.use("throughput")
    async with httpx.AsyncClient(timeout=300, limits=CONNECTIONS) as client:
        running = [asyncio.create_task(ask(client, server, "batch", TOKENS, True)) for _ in range(REQUESTS)]
        await asyncio.to_thread(wait_until, lambda: server.status()["in_flight"] == REQUESTS, "all run")
        paused = await asyncio.to_thread(ordered, server, "pause")
        late = asyncio.create_task(ask(client, server, "normal", 4, False))
        await asyncio.to_thread(wait_until, lambda: server.status()["queued"] > paused["waiting"], "one more waits")
        assert not late.done()
        assert server.not_ready() == ["paused by an operator"]
        await asyncio.to_thread(wait_until, lambda: server.status()["in_flight"] == 0, "the running ones have ended")
        assert not late.done()
        resumed = await asyncio.to_thread(ordered, server, "resume")
        answers = await asyncio.gather(*running, late)
    assert (resumed["state"], resumed["dispatched"] >= 1) == ("open", True)
    assert statuses(answers) == {200: REQUESTS + 1}
    assert all(answer.complete for answer in answers)
    assert server.not_ready() == []


async def test_a_warm_up_runs_while_the_server_serves(server: RunningServer) -> None:
    """The server stays ready, every answer is whole, and no count has the requests of the warm-up."""
    server.use("throughput")
    server.settle()
    before = server.scrape()
    async with httpx.AsyncClient(timeout=300, limits=CONNECTIONS) as client:
        running = [asyncio.create_task(ask(client, server, "batch", TOKENS, True)) for _ in range(REQUESTS)]
        await asyncio.to_thread(wait_until, lambda: server.status()["in_flight"] == REQUESTS, "all run")
        accepted = await asyncio.to_thread(ordered, server, "warmup", 202)
        beside = await ask(client, server, "normal", 4, False)
        assert server.not_ready() == []
        answers = [*await asyncio.gather(*running), beside]
    await asyncio.to_thread(wait_until, lambda: len(results(server, "warm_up_engine")) == 2, "its end is recorded", 120)
    assert results(server, "warm_up_engine")[0].startswith("applied after ")
    warmup = server.status()["warmup"]
    assert (warmup["ordered"], warmup["batch_size"]) == (False, accepted["batch_size"])
    assert warmup["stages"]["batch"]
    assert statuses(answers) == {200: REQUESTS + 1}
    assert all(answer.complete for answer in answers)
    server.settle()
    after = server.scrape()
    assert after("headway_arrivals_total") - before("headway_arrivals_total") == REQUESTS + 1


async def test_a_drain_refuses_new_requests_until_the_resume(server: RunningServer) -> None:
    """Running ones finish, and the audit log says when; the refusal has a Retry-After."""
    server.use("throughput")
    async with httpx.AsyncClient(timeout=300, limits=CONNECTIONS) as client:
        running = [asyncio.create_task(ask(client, server, "batch", TOKENS, True)) for _ in range(REQUESTS)]
        await asyncio.to_thread(wait_until, lambda: server.status()["in_flight"] == REQUESTS, "all run")
        await asyncio.to_thread(ordered, server, "drain", 202)
        refused = await ask(client, server, "normal", 4, False)
        answers = await asyncio.gather(*running)
        await asyncio.to_thread(
            wait_until, lambda: results(server, "drain_admission")[0].endswith("no request runs"), "it is drained"
        )
        await asyncio.to_thread(ordered, server, "resume")
        again = await ask(client, server, "normal", 4, False)
    assert (refused.status, int(refused.headers["retry-after"]) >= 1) == (503, True)
    assert statuses([*answers, again]) == {200: REQUESTS + 1}
