"""Engine hang (C2): the server detects it, suspends dispatch, and resumes when the engine responds.

Plain vLLM's /health answers 200 throughout.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from client_accounting import Client, ClientGroup, mixed
from client_connections import CONNECTIONS
from engine_parts import ROUNDS, engine_core, engine_processes, health, kill, long_form, order, ready
from running_server import RunningServer, wait_until
from until import until

#: How long the engine stays stopped after detection; the presets of these tests let no request wait for the last value.
STOPS_S = (20, 60, 240) if ROUNDS > 1 else (0,)
PATIENCE_S = 120


@pytest.mark.parametrize("stopped_s", STOPS_S)
async def test_a_stopped_engine_is_detected_and_no_request_is_lost(chaos: RunningServer, stopped_s: float) -> None:
    """Not ready while it is stopped; the queue's time-outs come on time; no new request is dispatched; then all
    complete whose time is not over."""
    group = ClientGroup(chaos, [*mixed(12), *(Client(100 + one, "realtime", one % 2 == 0, 40) for one in range(4))])
    load = asyncio.create_task(group.run())
    await asyncio.to_thread(wait_until, lambda: chaos.status()["in_flight"] == 4, "four run")
    stopped = engine_processes(chaos)
    for one in stopped:
        one.suspend()
    try:
        await asyncio.to_thread(wait_until, lambda: not ready(chaos), "the silence is noticed", 60)
        assert await asyncio.to_thread(health, chaos) == httpx.codes.SERVICE_UNAVAILABLE
        status = chaos.status()
        assert status["engine"]["state"] == "silent"
        late = Client(200, "realtime", False, 10)
        group.clients.append(late)
        async with httpx.AsyncClient(timeout=60, limits=CONNECTIONS) as http:
            await late.ask(http, chaos.url)
        assert (late.status, late.reason) == (503, "queue_timeout")
        await asyncio.sleep(stopped_s)
        assert chaos.status()["in_flight"] <= status["in_flight"], "a request was dispatched to an unresponsive engine"
    finally:
        for one in stopped:
            one.resume()
    await asyncio.to_thread(wait_until, lambda: ready(chaos), "it is ready again", 60)
    await load
    counts = group.audit()
    assert counts["doubled"] == 0
    if stopped_s < PATIENCE_S:
        assert {one.verdict for one in group.clients if one.class_name != "realtime"} == {"completed"}
    else:
        assert counts["completed"] == 0, "their time was over long before the engine went on"
    assert chaos.status()["engine"]["deaths"]["hang"] == 0


@pytest.mark.parametrize(
    "part", [pytest.param("EngineCore", marks=long_form("the test above")), "the worker, busy", "the worker, idle"]
)
async def test_a_part_of_the_engine_that_stops_is_detected(chaos: RunningServer, part: str) -> None:
    """One stopped process is enough, also when EngineCore itself still responds; then the engine resumes."""
    core = engine_core(chaos)
    stopped = [core] if part == "EngineCore" else [one for one in engine_processes(chaos) if one != core]
    assert stopped
    before = chaos.status()["engine"]["hangs"]
    group = ClientGroup(chaos, [] if part.endswith("idle") else mixed(4, sizes=(200,)))
    load = asyncio.create_task(group.run())
    # asked of the clients and not of the server: they end in a moment
    await until(lambda: load.done() or any(one.flows for one in group.clients), 120)
    for one in stopped:
        one.suspend()
    try:
        await asyncio.to_thread(wait_until, lambda: not ready(chaos), "the silence is noticed", 60)
        assert chaos.not_ready() == ["the engine is unresponsive"]
    finally:
        for one in stopped:
            one.resume()
    await asyncio.to_thread(wait_until, lambda: ready(chaos), "it is ready again", 60)
    await load
    assert {one.verdict for one in group.clients} <= {"completed"}
    assert chaos.status()["engine"]["hangs"] == before + 1, chaos.log()[-4000:]


@long_form("tests/plugin/supervision/test_hung_engines has it with a fake engine")
async def test_a_slow_step_is_no_hang(chaos: RunningServer, orders: Path) -> None:
    """One step that computes for three times as long as a hang may last: ready all the while, and it completes."""
    before = chaos.status()["engine"]["hangs"]
    order(orders, "slow 12")
    group = ClientGroup(chaos, mixed(4))
    load = asyncio.create_task(group.run())
    while not load.done():
        assert await asyncio.to_thread(chaos.not_ready) == []
        await asyncio.sleep(0.1)
    await load
    assert not list(orders.parent.glob(orders.name)), "the step was never slow"
    assert {one.verdict for one in group.clients} == {"completed"}
    assert chaos.status()["engine"]["hangs"] == before


@long_form("every load of this folder looks for false alarms; tests/policies/engine/test_watchdog has long steps")
async def test_a_long_prefill_under_load_is_no_hang(chaos: RunningServer) -> None:
    """Full seats and prompts of many chunks for longer than the watchdog waits: no false alarm."""
    before = chaos.status()["engine"]["hangs"]
    clients = mixed(24, sizes=(300,))
    async with httpx.AsyncClient(timeout=240, limits=CONNECTIONS) as http:
        body = {"model": "tiny", "prompt": "word " * 1500, "max_tokens": 5, "ignore_eos": True}
        async with asyncio.TaskGroup() as group:
            for one in clients:
                group.create_task(one.ask(http, chaos.url))
            for _ in range(8):
                group.create_task(http.post(f"{chaos.url}/v1/completions", json=body))
    assert {one.verdict for one in clients} == {"completed"}
    assert chaos.status()["engine"]["hangs"] == before


@long_form("tests/plugin/supervision/test_hung_engines has both with a fake engine: the open question, the late switch")
async def test_an_engine_that_stops_and_then_dies_leaves_no_query_open(chaos: RunningServer) -> None:
    """A switch is under way and the watchdog has a query open when the engine, stopped a moment ago, is killed: the
    switch is answered, the next engine is warm, has its limit and, though idle, is not considered unresponsive."""
    before = chaos.status()["engine"]
    stopped = engine_core(chaos)
    stopped.suspend()
    await asyncio.sleep(2)  # longer than it takes to be asked, shorter than it takes to be called silent
    switch = asyncio.create_task(asyncio.to_thread(chaos.use, "latency"))
    await asyncio.sleep(0.5)
    kill(stopped)
    assert (await switch)["name"] == "latency"
    await asyncio.to_thread(wait_until, lambda: chaos.status()["engine"]["deaths"] != before["deaths"], "it is missed")
    await asyncio.to_thread(wait_until, lambda: ready(chaos), "there is another engine", 120)
    chaos.use("chaos")
    await asyncio.sleep(6)  # the preset calls four seconds a silence
    assert chaos.status()["ready"]
    after = chaos.status()["engine"]
    assert (after["hangs"], after["core_limit"]) == (before["hangs"], 4)
    group = ClientGroup(chaos, mixed(4))
    await group.run()
    assert group.audit()["completed"] == 4
