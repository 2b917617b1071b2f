"""Service gives way under trouble, says so, and comes back by itself (C11)."""

from __future__ import annotations

import asyncio

import httpx
from engine_parts import engine_core, kill, ready
from outside import Books, Client, mixed
from running_server import RunningServer, wait_until


async def test_under_a_long_queue_answers_are_cut_and_batch_work_is_shed(chaos: RunningServer) -> None:
    """Never more than was asked, batch refused with its reason, and normal again when the queue is short."""
    chaos.use("chaos-ladder")
    books = Books(chaos, [*mixed(40, sizes=(600,)), Client(90, "normal", False, 5)])
    await books.run()
    served = [one for one in books.clients if one.status == httpx.codes.OK]
    shed = [one for one in books.clients if one.reason == "shed"]
    cut = [one for one in served if one.degraded]
    assert shed, "nobody was shed"
    assert {one.class_name for one in shed} == {"batch"}
    assert cut, "no answer was cut"
    assert {(one.class_name, one.tokens, one.degraded) for one in cut} == {("normal", 20, "max_tokens=20")}
    assert all(one.tokens == one.max_tokens for one in served if not one.degraded)
    wait_until(lambda: chaos.status()["fallback"]["rung"] == "normal", "service is normal again")
    chaos.use("chaos")
    chaos.settle()
    assert chaos.scrape().unbalanced() == []


async def test_another_model_answers_while_there_is_no_engine(chaos: RunningServer) -> None:
    """Who may be diverted gets an answer from there, and is told; once there is an engine it answers itself."""
    chaos.use("chaos-ladder")
    kill(engine_core(chaos))
    await asyncio.to_thread(wait_until, lambda: chaos.status()["fallback"]["rung"] == "divert", "it diverts")
    away = Client(1, "realtime", True, 10)
    async with httpx.AsyncClient(timeout=60) as http:
        await away.ask(http, chaos.url)
        assert (away.status, away.degraded) == (200, "model=small")
        await asyncio.to_thread(wait_until, lambda: ready(chaos), "there is an engine", 120)
        rung = lambda: chaos.status()["fallback"]["rung"] == "normal"  # noqa: E731 - read in a thread
        await asyncio.to_thread(wait_until, rung, "service is normal again")
        home = Client(2, "realtime", False, 10)
        await home.ask(http, chaos.url)
    assert (home.status, home.degraded, home.verdict) == (200, "", "completed")
    chaos.use("chaos")


async def test_a_recycled_engine_loses_nobody(chaos: RunningServer) -> None:
    """By command, under load: who runs finishes, who comes waits, and another engine serves them."""
    before = engine_core(chaos).pid
    books = Books(chaos, mixed(12))
    load = asyncio.create_task(books.run())
    await asyncio.to_thread(wait_until, lambda: chaos.status()["in_flight"] == 4, "four run")
    assert chaos.admin("POST", "recycle", json={"reason": "test"}).status_code == httpx.codes.ACCEPTED
    await load
    assert books.audit()["completed"] == len(books.clients)
    wait_until(lambda: not chaos.status()["memory"]["recycling"], "it is over", 60)
    assert engine_core(chaos).pid != before
    assert chaos.scrape()("headway_recycles_total", trigger="command") >= 1
