"""Engine out of memory: fewer seats, one more attempt, then all requests are refused and an alarm is raised. Plain vLLM
dies."""

from __future__ import annotations

import asyncio
from pathlib import Path

from client_accounting import ClientGroup, mixed
from engine_parts import long_form, order, ready
from running_server import RunningServer, wait_until

from headway_policies import Reason


@long_form("two engines more; tests/plugin/supervision/test_supervisor has it with a fake engine")
async def test_out_of_memory_halves_the_limit_and_then_stops_admitting(chaos: RunningServer, orders: Path) -> None:
    """The first time requests without output are retried with half the seats; the second time all requests get 503
    until a new engine is ready."""
    chaos.use("chaos-grudge")
    before = chaos.status()
    clients = mixed(6)
    for client in clients:
        client.stream = False
    group = ClientGroup(chaos, clients)
    load = asyncio.create_task(group.run())
    order(orders, "oom 1")
    await load
    group.audit()
    after = chaos.status()
    assert group.verdicts() == {"completed": 6}
    assert after["engine"]["deaths"]["out_of_memory"] == before["engine"]["deaths"]["out_of_memory"] + 1
    assert after["limit"]["live"] == before["limit"]["live"] // 2
    again = ClientGroup(chaos, mixed(6))
    order(orders, "oom 1")
    await again.run()
    assert {client.verdict for client in again.clients} <= {"refused", "broken"}
    assert {client.reason for client in again.clients if client.verdict == "refused"} == {str(Reason.OUT_OF_MEMORY)}
    wait_until(lambda: ready(chaos), "it admits again", 120)
    again.audit()
    last = ClientGroup(chaos, mixed(4))
    await last.run()
    assert last.audit()["completed"] == 4
    chaos.use("chaos")
    wait_until(lambda: chaos.status()["limit"]["live"] == 4, "a while without trouble opens all seats")
