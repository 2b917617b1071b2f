"""Memory maintenance while the server runs: caches are cleared after a large job, an engine is recycled."""

from __future__ import annotations

import asyncio

import httpx
import requests
from client_accounting import ClientGroup, mixed
from engine_parts import engine_core
from running_server import RunningServer, wait_until

CACHES = ("prefix", "worker", "heap")


def _large_job(server: RunningServer) -> float:
    """How many tokens of a long prompt the engine found in its prefix cache."""
    before = server.scrape()("vllm:prefix_cache_hits_total")
    body = {"model": "tiny", "prompt": "word " * 700, "max_tokens": 5, "ignore_eos": True}
    answer = requests.post(f"{server.url}/v1/completions", json=body, timeout=60)
    assert answer.status_code == requests.codes.ok, answer.text
    server.settle()
    return server.scrape()("vllm:prefix_cache_hits_total") - before


def test_caches_are_cleared_behind_a_large_job(chaos: RunningServer) -> None:
    """The engine itself finds nothing any more of a prompt that it has just seen; workers and heap are cleared too."""
    _large_job(chaos)
    assert _large_job(chaos) > 0, "vLLM caches no prefixes: there is nothing to clear"
    chaos.use("chaos-tidy")
    before = chaos.scrape()
    _large_job(chaos)

    def cleared() -> list[bool]:
        now = chaos.scrape()
        name = "headway_cache_clears_total"
        return [now(name, cache=cache) > before(name, cache=cache) for cache in CACHES]

    wait_until(lambda: all(cleared()), "all three are cleared")
    assert _large_job(chaos) == 0
    chaos.use("chaos")


async def test_a_recycled_engine_loses_no_request(chaos: RunningServer) -> None:
    """By command, under load: running requests finish, new ones wait, and another engine serves them."""
    before = engine_core(chaos).pid
    group = ClientGroup(chaos, mixed(12))
    load = asyncio.create_task(group.run())
    await asyncio.to_thread(wait_until, lambda: chaos.status()["in_flight"] == 4, "four run")
    assert chaos.admin("POST", "recycle", json={"reason": "test"}).status_code == httpx.codes.ACCEPTED
    await load
    assert group.audit()["completed"] == len(group.clients)
    wait_until(lambda: not chaos.status()["memory"]["recycling"], "it is over", 60)
    assert engine_core(chaos).pid != before
    assert chaos.scrape()("headway_recycles_total", trigger="command") >= 1
