"""What the control room makes of the engine's steps."""

from __future__ import annotations

import asyncio

from virtual_time import on_virtual_time

import headway
from headway.engine.fake import FakeEngine
from headway.supervision.warmup_report import WarmupReport
from headway_policies import Load, bundled_presets
from headway_policies.limits.limit import LimitSettings


@on_virtual_time
async def test_the_limit_learns_nothing_from_the_warm_up() -> None:
    """Steps of the warm-up, however slow, leave the limit where the preset has it; the same steps later lower it."""
    preset = bundled_presets()["balanced"].model_copy(update={"limit": LimitSettings(policy="aimd", max_seats=32)})
    control = headway.wrap(FakeEngine(), preset=preset).headway  # type: ignore[attr-defined]  # set by wrap

    async def slow_steps() -> int:
        for _ in range(50):
            await asyncio.sleep(0.5)
            control.step(Load(32, 0, 0.1, inter_token_s=0.5), 32, ())
        return int(control.gateway.gate.desk.limit)

    control.warmup = WarmupReport(state="running")
    assert await slow_steps() == 32
    control.warmup = WarmupReport(state="done")
    assert await slow_steps() < 32
