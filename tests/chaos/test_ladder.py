"""The fallback ladder under trouble: requests are degraded, marked as such, and served in full again afterwards
(C11)."""

from __future__ import annotations

import asyncio

import httpx
from client_accounting import Client, ClientGroup, mixed
from client_connections import CONNECTIONS
from engine_parts import engine_core, kill, long_form, ready
from running_server import RunningServer, wait_until


async def test_under_a_long_queue_answers_are_cut_and_batch_work_is_shed(chaos: RunningServer) -> None:
    """Never more than was asked, batch refused with its reason, and normal again when the queue is short."""
    chaos.use("chaos-ladder")
    group = ClientGroup(chaos, [*mixed(24, sizes=(400,)), Client(90, "normal", False, 5)])
    await group.run()
    served = [client for client in group.clients if client.status == httpx.codes.OK]
    shed = [client for client in group.clients if client.reason == "shed"]
    cut = [one for one in served if one.degraded]
    assert shed, "no request was shed"
    assert {one.class_name for one in shed} == {"batch"}
    assert cut, "no answer was cut"
    assert {(one.class_name, one.tokens, one.degraded) for one in cut} == {("normal", 20, "max_tokens=20")}
    assert all(one.tokens == one.max_tokens for one in served if not one.degraded)
    wait_until(lambda: chaos.status()["fallback"]["rung"] == "normal", "service is normal again")
    chaos.use("chaos")
    chaos.settle()
    assert chaos.scrape().unbalanced() == []


@long_form("tests/plugin/fallback and http/inference/test_fallback_served have it without an engine")
async def test_another_model_answers_while_there_is_no_engine(chaos: RunningServer) -> None:
    """Requests that allow a fallback get a marked answer from the other model; with an engine again, from the
    engine."""
    chaos.use("chaos-ladder")
    kill(engine_core(chaos))
    await asyncio.to_thread(wait_until, lambda: chaos.status()["fallback"]["rung"] == "divert", "it diverts")
    away = Client(1, "realtime", True, 10)
    async with httpx.AsyncClient(timeout=60, limits=CONNECTIONS) as http:
        await away.ask(http, chaos.url)
        assert (away.status, away.degraded) == (200, "model=small")
        await asyncio.to_thread(wait_until, lambda: ready(chaos), "there is an engine", 120)
        rung = lambda: chaos.status()["fallback"]["rung"] == "normal"  # noqa: E731 - read in a thread
        await asyncio.to_thread(wait_until, rung, "service is normal again")
        home = Client(2, "realtime", False, 10)
        await home.ask(http, chaos.url)
    assert (home.status, home.degraded, home.verdict) == (200, "", "completed")
    chaos.use("chaos")


async def test_urgent_ones_go_beside_a_batch_that_holds_them_up(chaos: RunningServer) -> None:
    """Under batches of exactly four: two seats beside the batch, named in the header, and the batch itself
    unchanged."""
    chaos.use("chaos-bypass")
    urgent = [Client(90 + one, "realtime", one % 2 == 0, 150) for one in range(3)]
    group = ClientGroup(chaos, [*(Client(one, "normal", False, 300) for one in range(8)), *urgent])
    load = asyncio.create_task(group.run(spread_s=0.2))
    await asyncio.to_thread(wait_until, lambda: chaos.status()["seats_taken"] == 6, "two go beside the four")
    sizes = set()
    while not load.done():
        sizes.add(chaos.status()["seats_taken"])
        await asyncio.sleep(0.05)
    await load
    assert max(sizes) <= 6, "the lane has two seats"
    assert group.audit()["completed"] == len(group.clients)
    assert {client.degraded for client in group.clients if client.class_name == "normal"} == {""}
    assert sum(one.degraded == "order" for one in urgent) >= 2
    chaos.use("chaos")
