"""Reads without side effects: no reading of a server starts, ends or moves anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import pytest
from admin_api import VIEWER, bearer, client_of
from engines import TrippingEngine, assert_no_residue, installed
from prometheus_client import CollectorRegistry, generate_latest
from small_presets import small_preset
from virtual_time import on_virtual_time

from headway.engine.fake import FakeParams
from headway.operator.control import Control
from headway.operator.metrics import MetricsCollector
from headway.supervision.supervisor import POLL_S, Supervisor
from headway_policies import Cause, Ending, EngineState, Load
from headway_policies.desk import dump


class Replacement:
    """Revives a fake engine after a second, and counts the starts."""

    def __init__(self, engine: TrippingEngine) -> None:
        self.started = 0
        self._engine = engine

    def cause(self) -> Cause:
        """A crash."""
        return Cause.CRASH

    def kill(self) -> None:
        """End it."""
        self._engine.die()

    async def start(self) -> None:
        """Another one."""
        self.started += 1
        await asyncio.sleep(1.0)
        self._engine.revive()


async def _get(control: Control, path: str) -> int:
    async with client_of(control) as client:
        return (await client.get(path, headers=bearer(VIEWER))).status_code


async def _scrape(control: Control) -> None:
    registry = CollectorRegistry()
    registry.register(MetricsCollector(control.snapshot, asyncio.get_running_loop()))
    assert b'headway_engine_state{state="up"} 1.0' in generate_latest(registry)


async def _status(control: Control) -> None:
    assert control.status().engine.state == "up"


async def _not_ready(control: Control) -> None:
    assert control.not_ready() == []


async def _readyz(control: Control) -> None:
    assert await _get(control, "/headway/readyz") == HTTPStatus.OK


async def _admin(control: Control) -> None:
    for path in ("status", "desk", "presets", "preset", "fallback", "audit"):
        assert await _get(control, f"/headway/v1/{path}") == HTTPStatus.OK


READINGS: dict[str, Callable[[Control], Any]] = {
    "status": _status,
    "metrics": _scrape,
    "not_ready": _not_ready,
    "readyz": _readyz,
    "admin": _admin,
}


@pytest.mark.parametrize("reading", READINGS)
@on_virtual_time
async def test_a_reading_of_a_dead_engine_changes_nothing(reading: str) -> None:
    """The engine dies with a request running and one waiting: it is read as before, until the supervisor's round."""
    engine = TrippingEngine(step_s=1.0)
    replacement = Replacement(engine)
    control, parts = installed(engine, small_preset(1), supervise=lambda one: Supervisor(one.gateway, replacement))
    gateway, desk, supervisor = control.gateway, control.gateway.gate.desk, control.supervisor
    assert supervisor is not None
    parts.tasks.start("supervisor", supervisor.run())

    async def ask(request_id: str) -> int:
        return len([one async for one in engine.generate("text", FakeParams(2), request_id)])

    calls = [asyncio.create_task(ask("running")), asyncio.create_task(ask("waiting"))]
    await asyncio.sleep(POLL_S + 0.01)

    def state() -> tuple[object, ...]:
        audit, ladder = control.audit.entries(9), control.fallback_controller.status()
        return dump(desk, 0.0), gateway.link.engine_gone, supervisor.deaths.total(), replacement.started, audit, ladder

    before = state()
    engine._dead = True  # as when the process ends: the call under way has not detected it yet
    for _ in range(3):
        await READINGS[reading](control)
    assert state() == before
    assert (desk.mode.engine, desk.ledger.queued, desk.ledger.in_flight) == (EngineState.UP, 1, 1)
    await asyncio.sleep(POLL_S)
    assert (desk.mode.engine, gateway.link.engine_gone, supervisor.deaths) == (
        EngineState.RESTARTING,
        True,
        {Cause.CRASH: 1},
    )
    assert control.not_ready()[0].startswith("the engine is being replaced")
    await asyncio.sleep(0.1)
    assert replacement.started == 1
    assert await asyncio.gather(*calls) == [2, 2]
    parts.tasks.stop_all()
    await asyncio.sleep(0)
    await assert_no_residue(control)


@on_virtual_time
async def test_a_death_that_a_call_finds_out_is_known_without_a_supervisor() -> None:
    """A program's own engine: its state follows from the calls that fail."""
    engine = TrippingEngine(step_s=0.1)
    control, _ = installed(engine, small_preset(1))
    engine.die()
    assert control.not_ready() == []
    with pytest.raises(Exception, match="engine"):
        async for _ in engine.generate("text", FakeParams(2), "finds out"):
            pass
    assert control.not_ready() == ["the engine is not running"]
    await assert_no_residue(control)


@on_virtual_time
async def test_a_snapshot_does_not_change_any_more() -> None:
    """Counts and reports after it are in the next one only."""
    control, parts = installed(TrippingEngine(), small_preset(1), warm_up=True)
    before = control.snapshot()
    permit = control.gateway.gate.enter()
    parts.warmup.begin(1).stages["batch"] = [1.0]
    parts.memory.pauses.generations[0].add(0.5, 0.0)
    parts.memory.recycled["growth"] += 1
    control.fallback_controller.put_on("pause")
    counts, after = before.ledgers["normal"], control.snapshot()
    assert (counts.arrived, before.status.seats_taken, before.status.warmup.stages, before.warmup_s) == (0, 0, {}, {})
    assert (before.gc_pauses[0].count, before.status.memory.recycled["growth"]) == (0, 0)
    assert (before.status.fallback.rung, dict(before.steps)) == ("normal", {})
    assert (after.ledgers["normal"].arrived, after.status.warmup.stages) == (1, {"batch": [1.0]})
    assert (after.gc_pauses[0].count, after.status.memory.recycled["growth"]) == (1, 1)
    assert after.status.fallback.rung == "pause"
    permit.leave(Ending.COMPLETED)
    control.gateway.gate.close()


@on_virtual_time
async def test_nothing_runs_in_an_engine_that_is_gone() -> None:
    """The report of its last step would stay on the charts for as long as it takes to start another."""
    engine = TrippingEngine(step_s=1.0)
    replacement = Replacement(engine)
    control, parts = installed(engine, small_preset(1), supervise=lambda one: Supervisor(one.gateway, replacement))
    parts.activity.load = Load(running=7, waiting=2, kv_usage_ratio=0.9)
    supervisor = control.supervisor
    assert supervisor is not None
    assert control.status().engine.running == 7
    parts.tasks.start("supervisor", supervisor.run())
    engine.die()
    await asyncio.sleep(POLL_S + 0.01)
    assert control.snapshot().engine is EngineState.RESTARTING
    read = control.status().engine
    assert (read.running, read.waiting, read.kv_cache_usage_ratio) == (0, 0, 0.0)
    parts.tasks.stop_all()
    await asyncio.sleep(2)
