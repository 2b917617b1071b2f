"""Every shipped preset and policy on the real engine: one server, switched from one to the next while it runs."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable

import httpx
import pytest
from client_connections import CONNECTIONS
from closed_loop_clients import ClosedLoopClients
from concurrent_requests import Answer, ask, scrapes_while, send_all, statuses
from engine_parts import long_form
from running_server import RunningServer, Scrape

from headway_policies.limits.governor import WHYS
from headway_tools.console import read_machine

CLIENTS = 40
FLUSH_S = 5  # of the preset offline


async def running_and_waiting(server: RunningServer, plan: list[tuple[str, int, bool]]) -> list[tuple[int, int]]:
    """Send a plan; what each scrape showed to run in the engine and to wait, until all is answered with 200."""
    work = asyncio.create_task(send_all(server, plan))
    scrapes = await scrapes_while(server, work)
    answers = await work
    assert statuses(answers) == {200: len(plan)}
    assert all(answer.complete for answer in answers)
    return [(int(one("vllm:num_requests_running")), int(one("headway_queue_depth"))) for one in scrapes]


async def limit_until(
    server: RunningServer, holds: Callable[[Scrape], bool], answers: frozenset[int] = frozenset({200})
) -> Scrape:
    """Load the server until a scrape holds; fails with the limits that were seen, and for other ``answers``."""
    seen: list[int] = []
    async with ClosedLoopClients(server, CLIENTS) as crowd:
        for _ in range(240):
            await asyncio.sleep(0.5)
            scrape = await asyncio.to_thread(server.scrape)
            seen.append(int(scrape("headway_limit", kind="live")))
            if holds(scrape):
                break
        else:
            raise AssertionError(f"the limit was never as expected: {seen}")
    assert 200 in crowd.codes
    assert set(crowd.codes) <= answers
    return scrape


# ---------------------------------------------------------------------- bundled presets


async def test_serial_runs_one_request_at_a_time(server: RunningServer) -> None:
    """Of six at once one runs and the others wait; all are answered."""
    server.use("serial")
    moments = await running_and_waiting(server, [("normal", 400, True)] * 6)
    assert {running for running, _ in moments} <= {0, 1}
    assert max(waiting for _, waiting in moments) >= 3


async def test_dynamic_runs_whole_batches_within_its_token_budget(server: RunningServer) -> None:
    """Of 40 requests of 500 tokens and their prompts at most sixteen fit into 8192 tokens; a next batch starts when
    the last has ended."""
    server.use("dynamic")
    moments = await running_and_waiting(server, [("batch", 500, True)] * 40)
    assert 8 < max(running for running, _ in moments) <= 16, (Counter(moments), server.status()["limit"])
    assert max(waiting for _, waiting in moments) >= 24


async def test_interactive_moves_its_limit_by_its_model(server: RunningServer) -> None:
    """It starts at what was learnt of the engine, and under load leaves that for a number of its own, within its
    bounds; what is too much is a 429.

    Or a 503, its time in the queue being over, where the engine became slower than it was when the request came.
    """
    server.use("interactive")
    start = server.status()["limit"]
    assert (start["live"], start["reason"]) == (16, "start") or start["reason"] == "recalled"
    await limit_until(
        server, lambda scrape: scrape("headway_limit", kind="live") != start["live"], frozenset({200, 429, 503})
    )
    status = server.status()
    assert 2 <= status["limit"]["live"] <= 64
    assert status["limit"]["reason"] in set(WHYS) - {"fixed", "failed", "start", "recalled"}


async def test_offline_waits_for_a_full_batch_or_the_flush(server: RunningServer) -> None:
    """Ten of 64: they gather, and run together when the first has waited for the flush."""
    server.use("offline")
    plan = [("batch", 40, False)] * 10
    work = asyncio.create_task(send_all(server, plan))
    scrapes = await scrapes_while(server, work)
    answers = await work
    assert statuses(answers) == {200: 10}
    assert max(scrape("headway_queue_depth") for scrape in scrapes) == 10
    assert max(int(answer.headers["x-headway-queue-ms"]) for answer in answers) >= 1000 * FLUSH_S


# ---------------------------------------------------------------------- limits


ELSEWHERE = (
    "tests/policies/limits has it with a simulated engine, this folder another policy and the preset interactive"
)


@pytest.mark.parametrize(
    "policy", ["sla", *(pytest.param(name, marks=long_form(ELSEWHERE)) for name in ("aimd", "model"))]
)
async def test_a_limit_falls_while_its_objective_is_broken_and_grows_while_it_is_kept(
    server: RunningServer, policy: str
) -> None:
    """From 8 seats: down to the lowest, or one more, where no engine keeps it, and to the highest where any does."""
    server.use(f"{policy}-tight")
    fallen = await limit_until(
        server, lambda scrape: scrape("headway_limit", kind="live") <= 3
    )  # sla: the middle of two marks
    server.use(f"{policy}-loose")
    grown = await limit_until(server, lambda scrape: scrape("headway_limit", kind="live") == 24)
    for scrape in (fallen, grown):
        assert scrape("headway_policy_failed") == 0
    assert server.status()["engine"]["core_limit"] == 24


async def test_memory_aware_bounds_the_seats_by_the_kv_cache(server: RunningServer) -> None:
    """With a thousandth of the KV cache to use, sixteen seats are too many: fewer stay open, for that reason."""
    server.use("memory16")
    kv: list[str] = []

    def bounded(scrape: Scrape) -> bool:
        limit = server.status()["limit"]
        kv.append(limit["reason"])
        return bool(limit["live"] <= 12 and limit["reason"] == "kv")

    await limit_until(server, bounded)
    engine = server.status()["engine"]
    assert engine["kv_cache_tokens"] > 100_000
    dtype = "float32" if read_machine(os.environ).slow_16bit else "bfloat16"
    assert (engine["dtype"], engine["kv_cache_dtype"], engine["quantization"]) == (dtype, dtype, "none")
    assert engine["max_model_len"] == 2048


# ---------------------------------------------------------------------- orders and bins


async def finished_in_order(server: RunningServer, *plan: tuple[str, int]) -> list[tuple[str, int]]:
    """Send requests of these classes and lengths at once, and return them in the order in which they ended."""
    ended: list[tuple[str, int]] = []
    async with httpx.AsyncClient(timeout=300, limits=CONNECTIONS) as client:

        async def one(class_name: str, tokens: int) -> Answer:
            answer = await ask(client, server, class_name, tokens, True)
            ended.append((class_name, tokens))
            return answer

        answers = await asyncio.gather(*(one(*request) for request in plan))
    assert statuses(answers) == {200: len(plan)}
    return ended


async def until(server: RunningServer, holds: Callable[[Scrape], bool]) -> None:
    """Poll until a scrape holds."""
    for _ in range(3000):
        if holds(await asyncio.to_thread(server.scrape)):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("never so")


async def test_under_ageing_a_request_that_has_waited_overtakes_a_more_urgent_one(server: RunningServer) -> None:
    """One seat, and a pause. A batch request waits until it is as urgent as normal, then a normal one comes: after the
    pause, batch first."""
    server.use("ageing1")
    assert server.admin("POST", "pause", json={"reason": "a test"}).status_code == 200
    waiting = asyncio.create_task(finished_in_order(server, ("batch", 300)))
    await until(server, lambda scrape: scrape("headway_queue_oldest_wait_seconds", **{"class": "batch"}) > 0.5)
    late = asyncio.create_task(finished_in_order(server, ("normal", 1000)))
    await until(server, lambda scrape: scrape("headway_queue_depth") == 2)
    assert server.admin("POST", "resume", json={"reason": "a test"}).status_code == 200
    await waiting
    assert not late.done()
    await late


async def test_bins_keep_short_and_long_answers_in_batches_of_their_own(server: RunningServer) -> None:
    """Lengths are learnt from 36 requests; then four short and four long ones are two batches, each of one kind.

    The long ones are so long that a client that pauses reads the short ones first all the same.
    """
    server.use("bins4")
    await finished_in_order(server, *[("normal", 20), ("normal", 160)] * 18)
    ended = await finished_in_order(server, *[("normal", 20), ("normal", 1000)] * 4)
    assert len(set(ended[:4])) == 1
    assert len(set(ended[4:])) == 1
