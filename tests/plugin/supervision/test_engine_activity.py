"""Activity of an engine: which steps the limit is adapted by, and which are ignored."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from engines import installed
from virtual_time import on_virtual_time

from headway.engine.fake import FakeEngine
from headway_policies import Ending, Load, Recovery, bundled_presets
from headway_policies.engine import StuckCause, StuckWatch, Watchdog
from headway_policies.limits import RankLoad
from headway_policies.limits.limit import LimitSettings


@on_virtual_time
async def test_the_limit_learns_nothing_from_the_warm_up() -> None:
    """Steps of the warm-up, however slow, leave the limit where the preset has it; the same steps later lower it.

    So do those of its own requests that are to be measured, where no others run beside them.
    """
    preset = bundled_presets()["balanced"].model_copy(update={"limit": LimitSettings(policy="aimd", max_seats=32)})
    control, parts = installed(FakeEngine(), preset)

    async def slow_steps() -> int:
        for _ in range(50):
            await asyncio.sleep(0.5)
            parts.activity.step(Load(32, 0, 0.1, inter_token_s=0.5), 32, ())
        return int(control.gateway.gate.desk.limit)

    with parts.activity.internal_requests():
        assert await slow_steps() == 32
        with parts.activity.internal_requests():
            pass
        with parts.activity.internal_requests(measured=True):
            assert await slow_steps() == 32
    with parts.activity.internal_requests(measured=True):
        assert await slow_steps() < 32
    assert await slow_steps() < 32


@on_virtual_time
async def test_parts_of_prompts_that_are_computed_again_and_again_are_no_service() -> None:
    """As of sequences that preempt one another in a full KV cache; the end of a prompt is one, and so is a token."""
    _, parts = installed(FakeEngine(), bundled_presets()["balanced"])
    link, terms = parts.gateway.link, Recovery(hang_after_s=10.0)
    link.stuck_watch = StuckWatch()

    async def named_after(*loads: Load) -> float:
        assert link.stuck_watch is not None
        for _ in range(100):
            await asyncio.sleep(0.1)
            for load in loads:
                parts.activity.step(load, load.running, ())
        return link.stuck_watch.stuck_s(parts.gateway.gate.now_s(), terms)

    part = Load(2, 1, 1.0, prefill_tokens=64, preemptions=1, first_tokens=0)
    assert await named_after(replace(part, first_tokens=1)) == 0.0
    assert await named_after(replace(part, inter_token_s=0.1)) == 0.0
    assert await named_after(part) > 7.5
    serves = Load(6, 1, 0.5, inter_token_s=0.1, first_tokens=0, own=RankLoad(4, 0, 0, 0.5))
    assert await named_after(serves) == 0.0
    assert await named_after(serves, replace(serves, inter_token_s=None, rank=1, own=RankLoad(2, 1, 0, 0.3))) > 7.5
    assert link.stuck_watch.cause(compiling=False) is StuckCause.NO_TOKENS


@on_virtual_time
async def test_steps_may_be_reported_together_unless_a_request_waits() -> None:
    """The engine is heard in each, and a report of several counts the batch of each."""
    _, parts = installed(FakeEngine(), bundled_presets()["balanced"])
    gate, sizes = parts.gateway.gate, list[int]()
    parts.gateway.link.watchdog = watchdog = Watchdog(0.0)
    parts.activity._batch_meter = sizes.append
    await asyncio.sleep(3.0)
    assert parts.activity.heard()
    assert watchdog._heard_s == gate.now_s()
    parts.activity.step(Load(4, 0, 0.1, inter_token_s=0.02, steps=3), 4, ())
    assert sizes == [4, 4, 4]
    gate.pause()
    permit = gate.enter()
    assert not parts.activity.heard()
    permit.leave(Ending.CANCELLED)
    assert parts.activity.heard()
