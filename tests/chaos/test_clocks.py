"""Wall-clock jumps and a blocked event loop (C10): time-outs occur when they are due, and no request is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from pathlib import Path

import requests
from client_accounting import TOTALS, Client, ClientGroup, mixed
from engine_parts import long_form, order
from running_server import RunningServer, wait_until

from headway_policies import Reason

HOUR_S = 3600


def _off_s(server: RunningServer) -> float:
    """How far the server's wall clock is ahead of this process, by the Date header of a response."""
    body = {"model": "tiny", "prompt": "x", "max_tokens": 1}
    answer = requests.post(
        f"{server.url}/v1/completions", json=body, headers={"x-headway-class": "realtime"}, timeout=60
    )
    return float(answer.json()["created"]) - time.time()


@long_form("tests/plugin/admission/test_gate_time_outs has it on virtual time")
async def test_a_wall_clock_jump_ends_no_request(chaos: RunningServer, orders: Path) -> None:
    """An hour ahead, an hour behind and right again, with four running and others waiting: all complete."""
    hangs = chaos.status()["engine"]["hangs"]
    group = ClientGroup(chaos, mixed(16, sizes=(150, 300)))  # for longer than both jumps
    load = asyncio.create_task(group.run())
    await asyncio.to_thread(wait_until, lambda: chaos.status()["queued"] > 4, "some wait")
    for jump_s in (HOUR_S, -HOUR_S):
        order(orders, f"clock {jump_s}")
        await asyncio.sleep(0.5)
    assert not load.done()
    order(orders, "clock 0")
    await load
    assert group.audit()["completed"] == len(group.clients)
    for jump_s in (HOUR_S, -HOUR_S):
        order(orders, f"clock {jump_s}")
        assert abs(await asyncio.to_thread(_off_s, chaos) - jump_s) < HOUR_S / 2, "the clock did not jump at all"
    assert chaos.status()["engine"]["hangs"] == hangs


@long_form("tests/plugin/admission/test_gate_time_outs has it on virtual time")
async def test_a_blocked_loop_dispatches_no_request_too_late(chaos: RunningServer) -> None:
    """The API server is stopped for longer than the urgent requests may wait, while the engine is not: no urgent
    request is dispatched afterwards, all others complete, and the engine is not considered unresponsive."""
    before = chaos.status()["engine"]
    urgent = [Client(100 + one, "realtime", False, 40) for one in range(6)]
    group = ClientGroup(chaos, [*mixed(8, sizes=(600,)), *urgent])
    load = asyncio.create_task(group.run(spread_s=0.5))
    await asyncio.to_thread(wait_until, lambda: chaos.status()["queued"] > 4, "some wait")
    TOTALS["faults"] += 1
    assert chaos.process is not None
    os.kill(chaos.process.pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(6)
    finally:
        os.kill(chaos.process.pid, signal.SIGCONT)
    await load
    counts = group.audit()
    reasons = Counter(one.reason for one in urgent if one.verdict == "refused")
    assert reasons[str(Reason.QUEUE_TIMEOUT)] > 0, "the stop made no request late"
    assert set(reasons) <= {str(Reason.QUEUE_TIMEOUT), str(Reason.DEADLINE_INFEASIBLE)}
    assert counts["completed"] == len(group.clients) - reasons.total()
    after = chaos.status()["engine"]
    assert (after["hangs"], after["deaths"]) == (before["hangs"], before["deaths"])
