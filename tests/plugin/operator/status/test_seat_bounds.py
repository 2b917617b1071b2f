"""The seats that the engine's memory holds, as a server reports them and warns of them."""

from __future__ import annotations

import pytest
from engines import TrippingEngine, installed
from small_presets import small_preset
from virtual_time import on_virtual_time

from headway_policies import Load
from headway_policies.limits import LimitSettings


@pytest.mark.parametrize(("reserve_ratio", "seats"), [(0.0, 20), (0.05, 19), (0.5, 10)])
@on_virtual_time
async def test_the_cap_from_kv_space_keeps_the_reserve_of_the_preset(reserve_ratio: float, seats: int) -> None:
    """20 sequences of 1024 tokens fit into 20,480: less the reserve; a preset of more seats is warned of."""
    preset = small_preset(20, limit=LimitSettings(kv_reserve_ratio=reserve_ratio))
    control, parts = installed(TrippingEngine(), preset)
    assert control.status().limit.kv_seats is None
    parts.activity.step(Load(1, 0, 0.1, kv_capacity_tokens=20_480), 1, [])
    assert (control.status().limit.kv_seats, control.status().limit.kv_seats_tokens) == (seats, 1024)
    warned = [
        words for words in control.warnings(preset) if words.startswith("batching.seats: the KV space has room for")
    ]
    assert len(warned) == (seats < 20)
