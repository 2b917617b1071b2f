"""The limit that the gateway hands to an engine, and the ranks of its calls."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from engines import ServingEngine, assert_no_residue
from gateway_calls import behind_a_gate, read
from small_presets import small_preset, terms
from virtual_time import on_virtual_time

from headway.engine.port import PlainAdapter
from headway.operator.install import install, prepare
from headway.operator.presets import PresetCatalogue
from headway_policies import Ending, Load
from headway_policies.limits.limit import LimitSettings


@on_virtual_time
async def test_the_rank_of_a_class_that_went_away_is_the_last() -> None:
    """A waiting request whose class a switch removed is the least urgent in the engine."""
    engine, control = behind_a_gate(1)
    holder = control.gateway.gate.enter()
    reading = asyncio.create_task(read(engine, "a", priority="realtime"))
    await asyncio.sleep(0)
    control.gateway.gate.switch(small_preset(classes={"x": terms(1), "y": terms(2)}))
    holder.leave(Ending.COMPLETED)
    await reading
    assert engine.priorities == {"a": 2}
    await assert_no_residue(control)


@on_virtual_time
async def test_a_limit_that_the_engine_will_not_take_undoes_no_switch(caplog: pytest.LogCaptureFixture) -> None:
    """The gate keeps the limit alone, the status says so, and one warning is logged."""

    class LimitFails(PlainAdapter):
        async def limit_engine(self, engine: Any, seats: int) -> int | None:
            raise TimeoutError("no answer")

    _, control = behind_a_gate(kind=LimitFails())
    with caplog.at_level(logging.WARNING, "headway.admission.engine_link"):
        await control.gateway.link.limit_engine()
    assert control.gateway.link.core_limit is None
    assert [record.getMessage() for record in caplog.records] == [
        "the engine has not confirmed its own limit of 2 seats (no answer): the gate alone keeps it until the engine "
        "responds"
    ]


class Knob(PlainAdapter):
    """An engine with a knob of its own, and the limits it was set to."""

    def __init__(self) -> None:
        super().__init__()
        self.limits: list[int] = []

    async def limit_engine(self, engine: Any, seats: int) -> int | None:
        self.limits.append(seats)
        return seats


@on_virtual_time
async def test_the_engine_gets_the_limit_at_the_first_request_and_at_each_switch() -> None:
    """An engine with a knob of its own follows the preset."""
    knob = Knob()
    engine, control = behind_a_gate(3, kind=knob)
    await read(engine, "a")
    assert (knob.limits, control.gateway.link.core_limit) == ([3], 3)
    from headway.audit import Caller

    await control.switch("serial", expected_revision=1, caller=Caller())
    assert (knob.limits, control.gateway.link.core_limit) == ([3, 1], 1)
    await assert_no_residue(control)


ADAPTIVE = {
    "fixed": ({}, 3),
    "adaptive, up to the engine's own limit": ({"policy": "aimd"}, 64),
    "adaptive, up to the preset's": ({"policy": "aimd", "max_seats": 16}, 16),
    "a bound by memory": ({"memory_aware": True}, 64),
    "adaptive, only shown": ({"policy": "aimd", "shadow": True}, 3),
}


@pytest.mark.parametrize(("limiting", "expected"), ADAPTIVE.values(), ids=ADAPTIVE)
@on_virtual_time
async def test_an_adaptive_limit_is_kept_by_the_gate_and_not_sent_to_the_engine_each_time(
    limiting: dict[str, Any], expected: int
) -> None:
    """The engine gets the most that the policy may reach, once; a fixed limit it gets as it is."""
    knob = Knob()
    preset = small_preset(3).model_copy(update={"limit": LimitSettings.model_validate(limiting)})
    engine: Any = ServingEngine(step_s=1.0)
    control = install(prepare(engine, knob, preset), PresetCatalogue())
    await read(engine, "a")
    for _ in range(50):
        control.activity.step(Load(3, 0, 0.1, inter_token_s=0.001), 3, [])
    await read(engine, "b")
    assert knob.limits == [expected]
    await assert_no_residue(control)


@on_virtual_time
async def test_an_engine_without_a_ceiling_gets_the_seats_of_the_preset() -> None:
    """Where the engine's capacity is unknown, an adaptive limit starts from the preset's value."""

    class Endless(Knob):
        def engine_seats(self, engine: Any) -> int | None:
            return None

    knob = Endless()
    preset = small_preset(3).model_copy(update={"limit": LimitSettings(policy="aimd")})
    engine: Any = ServingEngine(step_s=1.0)
    control = install(prepare(engine, knob, preset), PresetCatalogue())
    await read(engine, "a")
    assert knob.limits == [3]
    await assert_no_residue(control)
