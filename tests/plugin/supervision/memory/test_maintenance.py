"""Memory maintenance: the policy's actions are carried out, whatever fails, and no state remains."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from engines import installed
from virtual_time import on_virtual_time

from headway.engine.fake import FakeEngine, FakeParams
from headway.engine.port import Ended, PlainAdapter
from headway.supervision.engine_recycle import TASK as RECYCLE
from headway.supervision.memory.maintenance import TASK, MemoryMaintenance
from headway.supervision.memory.probe import MemoryUse
from headway_policies import CapReason, Ending, EngineState, Load, bundled_presets
from headway_policies.memory.settings import Cache, Memory

GIB = 2**30
CALM = MemoryUse(server_bytes=GIB, engine_bytes=GIB, gpu_usage_ratio=0.5)
QUICK = Memory(check_interval_s=1.0, lower_after_s=2.0, raise_after_s=5.0, clear_every_s=60.0, large_job_tokens=1000)


class Seats:
    """A gate that writes down its caps."""

    def __init__(self) -> None:
        self.caps: list[float] = []

    def cap_seats(self, reason: CapReason, ratio: float) -> None:
        assert reason is CapReason.MEMORY
        self.caps.append(ratio)


class Harness:
    """An engine behind a gate, its memory as set by the test, and the actions that were taken."""

    def __init__(self, *, replace: Callable[[], Awaitable[None]] | None = None, **memory: Any) -> None:
        config = QUICK.model_copy(update=memory)
        preset = bundled_presets()["latency"].model_copy(update={"memory": config})
        self.control, self.parts = installed(FakeEngine(), preset, replace=replace)
        self.use, self.seats, self.fails = CALM, Seats(), ""
        self.cleared: list[str] = []
        self.control.gateway.link.adapter.clear_cache = self._clear  # type: ignore[method-assign]  # a kind with caches
        self.maintenance = self.maintain(self.seats)
        self.collector = self.maintenance.collector

    def maintain(self, seats: Any) -> MemoryMaintenance:
        gateway, activity, report = self.control.gateway, self.parts.activity, self.parts.memory
        return MemoryMaintenance(gateway, activity, report, self.control.engine_recycle, seats=seats, probe=self._read)

    def _read(self) -> MemoryUse:
        if self.fails == "read":
            raise OSError("no such file")
        return self.use

    async def _clear(self, engine: Any, cache: Cache) -> bool:
        if self.fails == cache:
            raise RuntimeError("the engine knows no such call")
        self.cleared.append(cache)
        return True

    async def look(self, times: int = 1) -> None:
        for _ in range(times):
            await self.maintenance.update()
            await asyncio.sleep(1.0)


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """No test leaves the process's collector changed."""
    before = (gc.get_threshold(), list(gc.callbacks))
    yield
    assert (gc.get_threshold(), gc.callbacks) == before


@on_virtual_time
async def test_seats_are_capped_under_pressure_and_given_back() -> None:
    """The gate gets every change once, and the status shows the last."""
    harness = Harness()
    await harness.look()
    harness.use = replace(CALM, gpu_usage_ratio=0.99, host_usage_ratio=0.93)
    await harness.look(4)
    assert harness.seats.caps == [0.8]
    assert harness.control.status().memory.cap_ratio == 0.8
    assert harness.control.status().memory.host_usage_ratio == 0.93
    harness.use = CALM
    await harness.look(20)
    assert harness.seats.caps == [0.8, 0.9, 1.0]
    assert harness.control.memory.cap_ratio == 1.0


@on_virtual_time
async def test_the_cap_reaches_the_gate() -> None:
    """Fewer seats while it lasts, all of them afterwards."""
    harness = Harness()
    gate = harness.control.gateway.gate
    harness.maintenance = harness.maintain(None)
    await harness.look()
    harness.use = replace(CALM, gpu_usage_ratio=0.99)
    await harness.look(4)
    assert gate.desk.limit == 6
    harness.use = CALM
    await harness.look(20)
    assert gate.desk.limit == 8


@on_virtual_time
async def test_the_kv_use_of_an_engine_at_rest_is_no_pressure() -> None:
    """vLLM reports nothing while idle: its last word may have been a full cache."""
    harness = Harness()
    harness.control.activity.load = Load(running=8, waiting=0, kv_usage_ratio=0.995)
    await harness.look(10)
    assert harness.seats.caps == []
    permit = harness.control.gateway.gate.enter()
    await harness.look(10)
    assert harness.seats.caps[0] == 0.8
    permit.leave(Ending.COMPLETED)
    harness.control.gateway.gate.close()


@on_virtual_time
async def test_the_caches_are_cleared_after_a_large_job() -> None:
    """The largest sequence that ended since the last check counts; each cache has a count of its own."""
    harness = Harness(caches=(Cache.WORKER, Cache.PREFIX))
    harness.control.activity.step(None, 1, [Ended("a", 10, 20), Ended("b", 900, 100), Ended("c", 1, 1)])
    await harness.look(3)
    assert harness.cleared == ["worker", "prefix"]
    assert harness.control.memory.cleared == {Cache.WORKER: 1, Cache.PREFIX: 1}


@on_virtual_time
async def test_a_cache_that_cannot_be_cleared_does_not_keep_the_next_from_it(caplog: Any) -> None:
    """The failure is logged, and a failed action is not counted."""
    harness = Harness(caches=(Cache.WORKER, Cache.PREFIX))
    harness.fails = "worker"
    harness.control.activity.step(None, 1, [Ended("a", 5000, 1)])
    await harness.look(2)
    assert harness.cleared == ["prefix"]
    assert harness.control.memory.cleared == {Cache.PREFIX: 1}
    assert "the worker cache could not be cleared: RuntimeError" in caplog.text


@on_virtual_time
async def test_a_server_that_has_grown_tidies_its_own_heap() -> None:
    """Without asking the engine; the frozen part is looked through as well."""
    harness = Harness()
    with harness.collector:
        await harness.look()
        harness.use = replace(CALM, server_bytes=4 * GIB)
        before = harness.control.memory.pauses.read()[2].count
        await harness.look(2)
        assert harness.control.memory.pauses.read()[2].count == before + 1
    assert (harness.cleared, harness.control.memory.cleared) == ([], {Cache.HEAP: 1})


@on_virtual_time
async def test_growth_has_the_engine_replaced() -> None:
    """By the control room, in the server's own name; a new engine begins with a clean slate."""
    replaced: list[float] = []

    async def replacer() -> None:
        replaced.append(asyncio.get_running_loop().time())

    harness = Harness(recycle_growth_bytes=GIB, replace=replacer)
    await harness.look()
    harness.use = replace(CALM, engine_bytes=3 * GIB)
    await harness.look(1300)
    assert len(replaced) == 1
    assert harness.control.memory.recycled == {"growth": 1}
    actors = {line.actor for line in harness.control.audit.entries(10)}
    assert actors == {"headway"}


@on_virtual_time
async def test_two_engines_of_a_recycle_are_no_growth() -> None:
    """Of the old one the last size counts; the new one is measured from its first reading, when the old one is gone."""

    async def replacer() -> None:
        raise AssertionError("nothing has grown")

    harness = Harness(recycle_growth_bytes=GIB, replace=replacer)
    await harness.look(700)
    harness.use = replace(CALM, engine_bytes=4 * GIB)
    harness.parts.tasks.start(RECYCLE, asyncio.sleep(100))
    await harness.look(5)
    harness.control.memory.recycled["command"] += 1
    await harness.look(5)
    harness.use = replace(CALM, engine_bytes=2 * GIB)
    harness.parts.tasks.stop(RECYCLE)
    await harness.look(1300)
    assert [line.action for line in harness.control.audit.entries(10)] == []
    harness.use = replace(CALM, engine_bytes=4 * GIB)
    await harness.look()
    assert harness.control.audit.entries(10)[-1].result == "accepted"


@on_virtual_time
async def test_an_engine_after_a_death_is_measured_once_it_is_there() -> None:
    """Between the two nothing is held, and nothing is what the new one is compared with."""

    async def replacer() -> None:
        raise AssertionError("nothing has grown")

    harness = Harness(recycle_growth_bytes=GIB, replace=replacer)
    harness.use = full = replace(CALM, engine_bytes=4 * GIB, gpu_usage_ratio=0.92)
    await harness.look(700)
    mode, deaths = harness.control.gateway.gate.desk.mode, Counter[str]()
    harness.control.engine_recycle._supervisor = SimpleNamespace(deaths=deaths)  # type: ignore[assignment]
    mode.engine = EngineState.RESTARTING
    deaths["crash"] += 1
    harness.use = replace(CALM, engine_bytes=0, gpu_usage_ratio=0.01)
    await harness.look(20)
    mode.engine, harness.use = EngineState.UP, full
    await harness.look(1300)
    assert [line.action for line in harness.control.audit.entries(10)] == []


@on_virtual_time
async def test_trouble_is_said_once_and_ends_nothing(caplog: Any) -> None:
    """A reading that fails is tried again for ever, quietly after the first time; then all goes on."""
    caplog.set_level(logging.INFO)
    harness = Harness(check_interval_s=1.0)
    harness.fails = "read"
    task = asyncio.create_task(harness.maintenance.run())
    await asyncio.sleep(100.5)
    assert caplog.text.count("memory could not be read: OSError: no such file") == 1
    harness.fails, harness.use = "", replace(CALM, gpu_usage_ratio=0.99)
    await asyncio.sleep(2.0)
    harness.use = replace(CALM, gpu_usage_ratio=0.999)
    await asyncio.sleep(20.0)
    assert harness.seats.caps
    harness.control.gateway.link.closing = True
    await asyncio.sleep(1.0)
    assert task.done()


@on_virtual_time
async def test_a_recycle_without_a_replacer_is_logged_once(caplog: Any) -> None:
    """Under plain ``vllm serve`` there is no replacer."""
    harness = Harness(recycle_every_s=60.0)
    await harness.look(200)
    assert caplog.text.count("Recycle failed: CannotReplaceError: this server cannot replace its engine") == 1


async def test_it_starts_with_the_server_and_ends_with_the_loop() -> None:
    """The collector is controlled meanwhile, and nothing remains: no task, no callback, no threshold."""
    harness = Harness()
    before = gc.get_threshold()
    harness.maintenance.start(harness.parts.tasks)
    assert TASK in harness.parts.tasks
    assert gc.get_threshold() != before
    await asyncio.sleep(0.05)
    engine: Any = harness.control.gateway.link.engine
    async for _ in engine.generate("p", FakeParams(2), "r"):
        pass
    harness.parts.tasks.stop_all()
    await asyncio.sleep(0.05)
    assert gc.get_threshold() == before
    assert TASK not in harness.parts.tasks


async def test_readings_happen_on_a_thread() -> None:
    """System calls never hold the loop up."""
    harness, threads = Harness(), []
    harness.maintenance._probe = lambda: threads.append(threading.current_thread()) or CALM  # type: ignore[func-returns-value]  # it adds
    await harness.maintenance.update()
    assert threads
    assert threading.main_thread() not in threads


@on_virtual_time
async def test_the_limit_hears_how_busy_the_gpu_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe's reading goes along with every step of the engine from then on; without a GPU nothing does."""
    harness = Harness()
    seen: list[Load] = []
    monkeypatch.setattr(harness.control.gateway.gate, "observe", seen.append)
    step = Load(running=1, waiting=0, kv_usage_ratio=0.1)
    for busy in (None, 0.4):
        harness.use = replace(CALM, gpu_busy_ratio=busy)
        await harness.maintenance.update()
        harness.control.activity.step(step, 1, [])
    assert [load.gpu_busy_ratio for load in seen] == [None, 0.4]
    assert seen[1] == replace(step, gpu_busy_ratio=0.4)


@on_virtual_time
async def test_each_engine_is_asked_once_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Again after an error, and again for the engine that replaces it."""
    asked: list[int] = []

    async def memory(adapter: PlainAdapter, engine: object) -> dict[str, int]:
        asked.append(len(asked))
        if len(asked) == 1:
            raise RuntimeError("the engine does not know this call yet")
        return {"weights": len(asked)}

    monkeypatch.setattr(PlainAdapter, "memory", memory)
    harness = Harness()
    report = harness.control.memory
    await harness.look()
    assert report.engine_bytes == {}
    await harness.look(3)
    assert report.engine_bytes == {"weights": 2}
    report.recycled["command"] += 1
    await harness.look(3)
    assert report.engine_bytes == {"weights": 3}
    assert len(asked) == 3
