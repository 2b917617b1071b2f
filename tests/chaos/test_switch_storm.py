"""Presets switched all the time under load, some of them wrong (C9): nobody is lost, the wrong ones have no effect."""

from __future__ import annotations

import asyncio
import time

import requests
from engine_parts import ROUNDS
from outside import Books, mixed
from running_server import RunningServer, wait_until

NAMES = ("latency", "throughput", "chaos", "balanced", "no-such-preset")


def _switch_until(server: RunningServer, done: asyncio.Task[None]) -> tuple[int, int]:
    """Switch and switch; how many were applied, and how many refused."""
    applied = refused = 0
    while not done.done():
        for name in NAMES:
            answer = server.admin("PUT", "preset", headers={"If-Match": "*"}, json={"name": name})
            applied += answer.status_code == requests.codes.ok
            refused += answer.status_code == requests.codes.unprocessable
            time.sleep(0.02)
    return applied, refused


async def test_switches_without_end_lose_nobody(chaos: RunningServer) -> None:
    """Every client completes; each switch that was answered 200 raised the revision by one, no other did."""
    revision = chaos.status()["preset"]["revision"]
    books = Books(chaos, mixed(60 * ROUNDS, sizes=(20, 60)))
    load = asyncio.create_task(books.run(spread_s=5.0 * ROUNDS))
    applied, refused = await asyncio.to_thread(_switch_until, chaos, load)
    await load
    chaos.use("chaos")
    assert books.audit()["completed"] == len(books.clients)
    assert refused > 0
    assert chaos.status()["preset"]["revision"] == revision + applied + 1
    wait_until(lambda: chaos.status()["engine"]["core_limit"] == 4, "the last one holds in the engine, too")
