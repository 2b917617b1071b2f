"""Activity of an engine: which steps the limit is adapted by, and which are ignored."""

from __future__ import annotations

import asyncio

from engines import installed
from virtual_time import on_virtual_time

from headway.engine.fake import FakeEngine
from headway_policies import Load, bundled_presets
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
