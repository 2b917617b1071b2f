"""Bundled presets and adaptive limits on the real engine: one server, switched from one to the next while it runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import pytest
from closed_loop_clients import ClosedLoopClients
from concurrent_requests import scrapes_while, send_all, statuses
from engine_parts import long_form
from running_server import RunningServer, Scrape

from headway_policies.limits.governor import WHYS
from headway_tools.console import read_machine

CLIENTS = 24
FLUSH_S = 5  # of the preset offline


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
    """Of six at once one runs and the others wait; all are answered: first tokens of their class may take a minute."""
    server.use("serial")
    plan = [("batch", 30, True)] * 6
    work = asyncio.create_task(send_all(server, plan))
    scrapes = await scrapes_while(server, work)
    answers = work.result()
    assert statuses(answers) == {200: len(plan)}
    assert all(answer.complete for answer in answers)
    assert {scrape("vllm:num_requests_running") for scrape in scrapes} <= {0, 1}
    assert max(scrape("headway_queue_depth") for scrape in scrapes) >= 3


async def test_interactive_moves_its_limit_by_its_model(server: RunningServer) -> None:
    """The limit starts at what was learnt of the engine, and under load has a reason of its own for its number,
    within its bounds; what is too much is a 429.

    Or a 503, its time in the queue being over, where the engine became slower than it was when the request came.
    """
    server.use("interactive")
    start = server.status()["limit"]
    assert (start["live"], start["reason"]) == (16, "start") or start["reason"] == "recalled"
    own = set(WHYS) - {"fixed", "failed", "start", "recalled"}
    await limit_until(server, lambda _: server.status()["limit"]["reason"] in own, frozenset({200, 429, 503}))
    assert 2 <= server.status()["limit"]["live"] <= 64


@long_form("test_strategies has a static batch and its end")
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


@long_form("tests/policies/limits has it with a simulated engine; the limit of interactive moves on a real one")
@pytest.mark.parametrize("policy", ["sla", "aimd", "model"])
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
