"""The link to the engine: reading its state never acts, and each death is detected by a call or by the supervisor."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from engines import ServingEngine, assert_no_residue, outcomes
from small_presets import small_preset
from virtual_time import on_virtual_time

from headway.engine import EngineLife, PlainAdapter
from headway.engine.fake import FakeParams
from headway.errors import Refused
from headway.operator import PresetCatalogue, install, prepare
from headway.operator.control import Control
from headway.supervision import Supervisor
from headway_policies import EngineState, Reason


def behind_a_gate(seats: int = 1) -> tuple[Any, Control]:
    """A wrapped engine of a program: without a supervisor."""
    engine: Any = ServingEngine(step_s=1.0)
    return engine, install(prepare(engine, PlainAdapter(), small_preset(seats)), PresetCatalogue())


async def read(engine: Any, request_id: str, tokens: int = 3) -> int:
    return len([one async for one in engine.generate("text", FakeParams(tokens), request_id)])


def reason(result: object) -> Reason | None:
    return getattr(result, "reason", None)


@on_virtual_time
async def test_reading_errored_changes_nothing() -> None:
    """``errored`` is true for a dead engine, from any thread, and reading it does not report the death to the gate."""
    engine, control = behind_a_gate()
    assert await read(engine, "a") == 3
    engine.die()
    assert engine.errored is True
    assert await asyncio.to_thread(lambda: engine.errored) is True
    await asyncio.sleep(1)
    desk, link = control.gateway.gate.desk, control.gateway.link
    assert (desk.mode.engine, link.life) == (EngineState.UP, EngineLife.UP)
    await assert_no_residue(control)


@on_virtual_time
async def test_a_death_can_be_reported_from_any_thread() -> None:
    """``check_engine`` of a dead engine refuses all requests, once; of a running one it changes nothing."""
    engine, control = behind_a_gate()
    reading = asyncio.create_task(read(engine, "a", 100))
    await asyncio.sleep(0.5)
    control.gateway.link.check_engine()
    assert control.gateway.gate.desk.mode.engine_up
    engine.die()
    for _ in range(2):
        await asyncio.to_thread(control.gateway.link.check_engine)
    await asyncio.sleep(0)
    assert control.gateway.gate.desk.mode.engine_up is False
    assert reason((await asyncio.gather(reading, return_exceptions=True))[0]) is Reason.ENGINE_LOST
    await assert_no_residue(control)
    assert outcomes(control) == {"engine_lost": 1}


@on_virtual_time
async def test_the_next_call_reports_the_death_of_an_idle_engine() -> None:
    """The call is refused at once, though dispatch is paused, and so is every request that waits."""
    engine, control = behind_a_gate()
    assert await read(engine, "a") == 3
    control.gateway.gate.pause()
    waiting = asyncio.create_task(read(engine, "waiting"))
    await asyncio.sleep(1)
    engine.die()
    await asyncio.sleep(1)
    assert not waiting.done()
    with pytest.raises(Refused) as refused:
        await read(engine, "next")
    assert refused.value.reason is Reason.ENGINE_LOST
    assert reason((await asyncio.gather(waiting, return_exceptions=True))[0]) is Reason.ENGINE_LOST
    assert engine.started == ["a"]
    await assert_no_residue(control)


@on_virtual_time
async def test_the_dispatch_of_a_waiting_request_reports_the_death_of_an_idle_engine() -> None:
    """The first of the queue finds the engine dead; the others are refused with it."""
    engine, control = behind_a_gate()
    assert await read(engine, "a") == 3
    control.gateway.gate.pause()
    waiting = [asyncio.create_task(read(engine, f"waiting {number}")) for number in range(3)]
    await asyncio.sleep(1)
    engine.die()
    control.gateway.gate.resume()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [reason(result) for result in results] == [Reason.ENGINE_LOST] * 3
    assert control.gateway.link.engine_lost
    await assert_no_residue(control)


@on_virtual_time
async def test_the_supervisor_reports_the_death_of_an_idle_engine() -> None:
    """Within one of its rounds, without any call."""
    engine, control = behind_a_gate()
    assert await read(engine, "a") == 3
    control.gateway.gate.pause()
    waiting = asyncio.create_task(read(engine, "waiting"))
    running = asyncio.create_task(Supervisor(control.gateway).run())
    await asyncio.sleep(1)
    engine.die()
    await asyncio.sleep(0.25)
    assert control.gateway.gate.desk.mode.engine is EngineState.LOST
    assert reason((await asyncio.gather(waiting, return_exceptions=True))[0]) is Reason.ENGINE_LOST
    await running
    await assert_no_residue(control)


class Handler:
    """Takes note of deaths."""

    def __init__(self) -> None:
        self.deaths = 0

    def handle_death(self) -> None:
        self.deaths += 1


@pytest.mark.parametrize("final", ["lost", "closing"])
@on_virtual_time
async def test_an_engine_that_will_be_replaced_is_not_errored(final: str) -> None:
    """With a death handler ``errored`` is false until no other engine will follow; each death is handled once."""
    engine, control = behind_a_gate()
    handler, link = Handler(), control.gateway.link
    link.death_handler = handler
    assert await read(engine, "a") == 3
    assert not engine.errored
    engine.die()
    assert not engine.errored
    link.check_engine()
    link.check_engine()
    assert handler.deaths == 1
    link.closing = final == "closing"
    if not link.closing:
        link.give_up()
    assert engine.errored


@on_virtual_time
async def test_a_death_before_the_first_request_is_handled_once() -> None:
    """Reported on the loop or from a thread, which has no loop to give it to yet, and again by the first request."""
    for on_loop in (True, False):
        engine, control = behind_a_gate()
        handler, link = Handler(), control.gateway.link
        link.death_handler = handler
        engine.die()
        if on_loop:
            link.check_engine()
        else:
            await asyncio.to_thread(link.check_engine)
        assert (link.engine_gone, handler.deaths) == (True, int(on_loop))
        link.check_engine()
        assert handler.deaths == 1
        link.begin()
        await asyncio.sleep(0)
        assert (handler.deaths, link.loop.tasks) == (1, set())
        engine.revive()
        link.engine_back()
        engine.die()
        link.check_engine()
        assert handler.deaths == 2


@on_virtual_time
async def test_an_engine_that_was_given_up_before_the_first_request_did_not_die_again() -> None:
    """The first request is refused, and no death is counted for it."""
    engine, control = behind_a_gate()
    handler, link = Handler(), control.gateway.link
    link.death_handler = handler
    link.give_up()
    with pytest.raises(Refused) as refused:
        await read(engine, "first")
    assert (refused.value.reason, handler.deaths) == (Reason.ENGINE_LOST, 0)
    await assert_no_residue(control)


@on_virtual_time
async def test_a_report_that_comes_too_late_changes_nothing() -> None:
    """An engine that was given up does not fall silent, respond or warm up, and it stays the cause of the end."""
    _, control = behind_a_gate()
    link, mode = control.gateway.link, control.gateway.gate.desk.mode
    link.engine_responds()
    assert link.life is EngineLife.UP
    link.give_up()
    for report in (link.engine_silent, link.engine_responds, link.engine_not_ready, link.closed_from_any_thread):
        report()
        assert (link.life, mode.engine, mode.lost_why) == (EngineLife.LOST, EngineState.LOST, Reason.ENGINE_LOST)
    link.engine_back()
    link.engine_not_ready()
    assert (link.life, link.engine_gone, mode.lost_why) == (EngineLife.STARTING, False, Reason.NOT_READY)
    link.engine_died()
    assert link.life is EngineLife.LOST
    await asyncio.sleep(1.0)
