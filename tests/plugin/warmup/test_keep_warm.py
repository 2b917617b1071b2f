"""An idle engine is kept warm, as the preset in force says."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from engines import assert_no_residue, outcomes
from virtual_time import on_virtual_time
from warming_engine import warming

from headway.engine.fake import FakeParams
from headway.supervision.engine_activity import EngineActivity
from headway_policies import Load
from headway_policies.engine.warmup import Warmup


@on_virtual_time
async def test_an_idle_engine_is_kept_warm() -> None:
    """One short request whenever nothing has run for so long; none of them is a ticket or a lesson for the limit."""
    _engine, harness, requests = warming(keep_warm_after_s=60.0)
    await harness.warm_up(requests)
    harness.keep_warm(requests)
    await asyncio.sleep(10 * 62)
    assert requests.brief == 10
    assert sum(outcomes(harness.control).values()) == 0
    harness.tasks.stop_all()
    await assert_no_residue(harness.control)


@on_virtual_time
async def test_a_busy_engine_is_not_warmed() -> None:
    """An engine step, or a call under way, counts as use."""
    engine, harness, requests = warming(keep_warm_after_s=60.0)
    await harness.warm_up(requests)
    harness.keep_warm(requests)
    for _ in range(10):
        await asyncio.sleep(50)
        harness.activity.step(Load(1, 0, 0.1), 1, ())
    assert requests.brief == 0
    engine.stalled = True
    call = asyncio.ensure_future(anext(engine.generate("p", FakeParams(1), "slow", timeout_s=1e6)))
    await asyncio.sleep(50)
    assert requests.brief == 0
    call.cancel()
    harness.tasks.stop_all()


@pytest.mark.parametrize("state", ["off", "draining", "paused", "not warm", "closing"])
@on_virtual_time
async def test_keep_warm_asks_nothing_of_a_server_that_does_not_serve(state: str) -> None:
    """Off by default; and never while draining, pausing, not ready or closing."""
    _engine, harness, requests = warming(keep_warm_after_s=None if state == "off" else 10.0)
    harness.report.state = "failed" if state == "not warm" else "done"
    harness.keep_warm(requests)
    harness.gateway.link.closing = state == "closing"
    {"draining": harness.gateway.gate.drain, "paused": harness.gateway.gate.pause}.get(state, lambda: None)()
    await asyncio.sleep(1000)
    assert requests.brief == 0
    harness.tasks.stop_all()


@on_virtual_time
async def test_keep_warm_follows_the_preset_in_force() -> None:
    """A switch turns it on within seconds, and off again."""
    _engine, harness, requests = warming()
    harness.report.state = "done"
    harness.keep_warm(requests)
    off = harness.control.preset
    on = off.model_copy(update={"warmup": Warmup(keep_warm_after_s=10.0)})
    harness.gateway.gate.switch(on)
    await asyncio.sleep(16)
    assert requests.brief == 1
    harness.gateway.gate.switch(off)
    await asyncio.sleep(100)
    assert requests.brief == 1
    harness.tasks.stop_all()


@on_virtual_time
async def test_keep_warm_outlives_its_own_failures() -> None:
    """A stuck request ends at the cap, one that fails is no news, and the next one is sent in its turn."""
    engine, harness, requests = warming(keep_warm_after_s=10.0, timeout_s=5.0)
    harness.report.state = "done"
    harness.keep_warm(requests)
    engine.stalled, requests.contexts = True, {2}
    await asyncio.sleep(16)
    assert (requests.brief, engine.running, harness.activity.internal) == (1, {}, False)
    engine.stalled = False
    await asyncio.sleep(25)
    assert requests.brief == 3
    harness.tasks.stop_all()


@on_virtual_time
async def test_the_steps_of_keep_warm_teach_nothing() -> None:
    """While its request runs no step is a batch or a signal."""
    engine, harness, requests = warming(keep_warm_after_s=10.0)
    harness.report.state, seen = "done", []
    harness.activity = EngineActivity(harness.gateway, seen.append)
    harness.parts = replace(harness.parts, activity=harness.activity)
    harness.keep_warm(requests)
    engine.stalled = True
    await asyncio.sleep(11)
    harness.activity.step(Load(1, 0, 0.1), 1, ())
    engine.stalled = False
    await asyncio.sleep(1)
    harness.activity.step(Load(2, 0, 0.1), 2, ())
    assert seen == [2]
    harness.tasks.stop_all()
