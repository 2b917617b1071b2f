"""Engine death under load (C1): no request is lost, none is served twice, and the server continues.

Plain vLLM ends 48 of 48 streams as 200 with an error, answers the rest 500, and exits with code 0.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from client_accounting import Client, ClientGroup, mixed
from engine_parts import ROUNDS, engine_core, kill, long_form, order, ready
from running_server import RunningServer, wait_until

from headway_policies import Reason


async def _under_load(server: RunningServer, group: ClientGroup, strike: Callable[[], None]) -> None:
    """Inject the fault while some requests run and some wait; the server has to report not ready, and then ready
    again."""
    load = asyncio.create_task(group.run())
    await asyncio.to_thread(wait_until, lambda: _busy(server, group), "four run, text flows, others wait")
    strike()
    await asyncio.to_thread(wait_until, lambda: not ready(server), "it is not ready")
    await asyncio.to_thread(wait_until, lambda: ready(server), "it is ready again", 120)
    await load


def _busy(server: RunningServer, group: ClientGroup) -> bool:
    status = server.status()
    flows = any(one.flows for one in group.clients)
    return bool(flows and status["in_flight"] == 4 and status["queued"] > 3)


@pytest.mark.parametrize("round_number", range(ROUNDS))
async def test_a_killed_engine_is_replaced_and_no_request_is_lost(chaos: RunningServer, round_number: int) -> None:
    """Every client has its end: complete, or one error event where text was sent before. Clients, Headway and vLLM
    count the same; what had sent nothing is served by the new engine."""
    chaos.use(
        "latency"
    )  # the record of deaths is the server's, whatever the preset; this only shows a switch harms none
    chaos.use("chaos")
    group = ClientGroup(chaos, mixed(24, sizes=(60, 200)))
    deaths = chaos.status()["engine"]["deaths"]["crash"]
    await _under_load(chaos, group, lambda: kill(engine_core(chaos)))
    counts = group.audit()
    assert chaos.status()["engine"]["deaths"]["crash"] == deaths + 1
    assert {one.verdict for one in group.clients if not one.stream} == {"completed"}
    broken = [one for one in group.clients if one.verdict == "broken"]
    assert len(broken) <= 4, "only running requests can have been broken off"
    assert all((one.stream, one.errors, one.done) == (True, 1, True) for one in broken)
    assert counts["completed"] + len(broken) == len(group.clients)


@long_form("two engines more; tests/plugin/supervision/test_supervisor has it with a fake engine")
async def test_a_request_that_kills_twice_is_refused_and_its_companions_complete(
    chaos: RunningServer, orders: Path
) -> None:
    """Every request in flight at a crash is retried alone, so the second crash has one suspect."""
    order(orders, "poison 77")
    poison = Client(99, "normal", False, 77)
    group = ClientGroup(chaos, [*mixed(3, sizes=(300,)), poison])
    for one in group.clients[:3]:
        one.stream = False
    await group.run()
    group.audit()
    assert (poison.status, poison.reason) == (503, str(Reason.POISON))
    assert {one.verdict for one in group.clients[:3]} == {"completed"}
