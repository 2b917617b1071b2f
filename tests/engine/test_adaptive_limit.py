"""An adaptive limit on the real engine: it moves from its start to the seats that keep the time between tokens."""

from __future__ import annotations

import asyncio
from statistics import median

from adaptive_presets import name_of
from closed_loop_clients import ClosedLoopClients
from engine_parts import long_form
from running_server import RunningServer

CLIENTS = 80
SETTLED = 8  # readings, a second apart


async def inter_token_ms(server: RunningServer, for_s: float) -> float:
    """The mean time between tokens over a stretch, by vLLM's own histogram."""
    name = "vllm:inter_token_latency_seconds"
    before = await asyncio.to_thread(server.scrape)
    await asyncio.sleep(for_s)
    after = await asyncio.to_thread(server.scrape)
    return 1000 * (after(f"{name}_sum") - before(f"{name}_sum")) / (after(f"{name}_count") - before(f"{name}_count"))


@long_form("test_shipped_policies sees each policy fall and grow; this one settles")
async def test_an_adaptive_limit_moves_and_settles_under_a_real_load(server: RunningServer) -> None:
    """With an SLO between the engine's time at a few seats and at all of them, the limit comes down and stays there."""
    server.use("continuous4")
    async with ClosedLoopClients(server, 8):
        few_ms = await inter_token_ms(server, 4)
    server.use("throughput")
    async with ClosedLoopClients(server, CLIENTS):
        await asyncio.sleep(2)
        many_ms = await inter_token_ms(server, 4)
    assert many_ms > few_ms
    server.use(name_of((few_ms + many_ms) / 2))
    limits = await _limits_under_load(server)
    last = limits[-SETTLED:]
    assert limits[0] > max(last), f"the limit did not come down: {limits}"
    assert min(last) > 1, f"the limit fell to the floor: {limits}"
    assert max(last) - min(last) <= 0.6 * median(last), f"the limit did not settle: {limits}"


async def _limits_under_load(server: RunningServer) -> list[int]:
    """The live limit, once a second, until it has stayed about the same for a while; at most two minutes of it."""
    limits: list[int] = [server.status()["limit"]["live"]]
    async with ClosedLoopClients(server, CLIENTS) as crowd:
        for _ in range(120):
            await asyncio.sleep(1)
            scrape = await asyncio.to_thread(server.scrape)
            limits.append(int(scrape("headway_limit", kind="live")))
            assert scrape("headway_seats_taken") <= max(limits)
            last = limits[-SETTLED:]
            if len(limits) > 2 * SETTLED and max(last) - min(last) <= 0.4 * median(last):
                break
    assert set(crowd.codes) == {200}
    return limits
