"""An engine that steps and admits nothing: it is named everywhere with its cause, is not ended, and then serves on.

Plain vLLM's /health answers 200 throughout, and its log shows waiting requests alone.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from client_accounting import ClientGroup, mixed
from engine_parts import order, ready
from running_server import RunningServer, wait_until

WITHIN_S = 15.0


def named(server: RunningServer) -> dict[str, Any]:
    """The status, once the diagnosis names it too; else empty."""
    status = server.status()
    return status if status["diagnosis"]["bottleneck"] == "engine_stuck" else {}


async def test_an_engine_that_admits_nothing_is_named_and_serves_on(chaos: RunningServer, orders: Path) -> None:
    """Not ready, with its cause and for how long; the engine lives on, and all requests complete once it admits."""
    before = chaos.status()["engine"]
    order(orders, "admit nothing")
    group = ClientGroup(chaos, mixed(8))
    load = asyncio.create_task(group.run())
    await asyncio.to_thread(wait_until, lambda: chaos.status()["in_flight"] == 4, "four are in the engine")
    try:
        status = await asyncio.to_thread(wait_until, lambda: named(chaos), "it is named", 60)
        assert status["engine"]["stuck"] == "not_admitted"
        assert status["engine"]["stuck_s"] <= WITHIN_S  # by the engine's own steps, however busy this machine is
        assert chaos.not_ready() == ["the engine steps and admits nothing, although its KV cache has room"]
        assert chaos.scrape()("headway_engine_stuck_seconds", cause="not_admitted") > 0
        assert status["engine"]["hangs"] == before["hangs"], "it steps and answers: this is no hang"
    finally:
        await asyncio.to_thread(orders.unlink)
    await asyncio.to_thread(wait_until, lambda: ready(chaos), "it is ready again", 60)
    await load
    assert {one.verdict for one in group.clients} == {"completed"}
    after = chaos.status()["engine"]
    assert (after["stuck"], after["deaths"]) == ("", before["deaths"])
