"""Engines that are silent, hang, compile, pause or take long, in virtual time: which of them are replaced."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from supervised_engine import START_S, Harness
from until import until
from virtual_time import on_virtual_time

import headway
from headway.audit import Caller
from headway.engine.fake import FakeEngine, FakeParams
from headway.engine.port import PlainAdapter
from headway.engine_service import EngineService
from headway.operator import PresetCatalogue
from headway.supervision import FactoryReplacer
from headway.warmup import OneRequest
from headway_policies import Cause, EngineState
from headway_policies.engine import Recovery, Warmup


@on_virtual_time
async def test_a_silent_engine_receives_no_requests_until_it_responds() -> None:
    """After 30 s without a response it is not ready; new requests wait, time-outs go on; then dispatch resumes."""
    harness = Harness(hang_after_s=30.0)
    running = harness.ask("running", 200, timeout_s=50.0)
    await asyncio.sleep(0.5)
    harness.engine.stalled = True
    await asyncio.sleep(29)
    assert (harness.engine_state, harness.control.not_ready()) == (EngineState.UP, [])
    await asyncio.sleep(3)
    assert (harness.engine_state, harness.supervisor.hangs) == (EngineState.SILENT, 1)
    assert harness.control.not_ready() == ["the engine is unresponsive"]
    late = harness.ask("late")
    await asyncio.sleep(0.05)
    assert (late.done(), len(harness.engine.running)) == (False, 1)
    harness.engine.stalled = False
    await asyncio.sleep(0.5)
    assert (harness.engine_state, harness.control.not_ready()) == (EngineState.UP, [])
    assert await late == "20 tokens"
    assert await running == "total_timeout"
    await harness.close()


@on_virtual_time
async def test_an_idle_engine_that_hangs_is_noticed() -> None:
    """The engine is queried after a silence, without a request having to wait first."""
    harness = Harness(hang_after_s=10.0)
    await asyncio.sleep(100)
    assert harness.engine_state is EngineState.UP
    harness.engine.stalled = True
    await asyncio.sleep(12)
    assert harness.engine_state is EngineState.SILENT
    harness.engine.stalled = False
    await asyncio.sleep(0.5)
    assert harness.engine_state is EngineState.UP
    await harness.close()


@on_virtual_time
@pytest.mark.parametrize("hang_after_s", [1.0, 10.0, 60.0])
async def test_an_idle_engine_is_queried_as_often_as_its_terms_ask_for(hang_after_s: float) -> None:
    """Several times within ``hang_after_s``, at least every few seconds: only one silent for so long is hung."""
    harness = Harness(hang_after_s=hang_after_s)
    await asyncio.sleep(100)
    assert (harness.engine_state, harness.supervisor.hangs) == (EngineState.UP, 0)
    harness.engine.stalled = True
    await asyncio.sleep(max(0.8 * hang_after_s, hang_after_s - 5.0) - 0.5)
    assert harness.engine_state is EngineState.UP
    await asyncio.sleep(6.0)
    assert harness.engine_state is EngineState.SILENT
    await harness.close()


@on_virtual_time
async def test_a_hung_engine_is_ended_where_the_preset_says_so() -> None:
    """The engine is replaced like one that died, and requests that had sent no output are retried."""
    harness = Harness(hang_after_s=10.0, restart_hung=True)
    harness.engine.stalled = True
    fresh = harness.ask("fresh", timeout_s=59.0)
    assert await fresh == "20 tokens"
    assert harness.supervisor.deaths == {Cause.HANG: 1}
    await harness.close()


@on_virtual_time
async def test_a_grammar_that_compiles_for_long_is_named_and_the_engine_serves_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Requests are dispatched, and the server is ready; a log line once, a note, a sentence, a metric name the wait."""
    harness = Harness(hang_after_s=10.0, slow_step_after_s=40.0, restart_hung=True)
    harness.engine.compiling_s = 9.0
    await asyncio.sleep(6)
    assert (harness.control.notes(), harness.supervisor.slow_compilation_s) == ([], 0.0)
    harness.engine.compiling_s = 34.0
    await asyncio.sleep(6)
    assert harness.control.notes() == ["the engine has been compiling a grammar for 34 s"]
    assert (harness.engine_state, harness.control.not_ready(), harness.supervisor.hangs) == (EngineState.UP, [], 0)
    harness.control.diagnostics.sample()
    assert harness.control.diagnostics.facts().compiling_s == 34.0
    assert sum("compiling a grammar" in record.getMessage() for record in caplog.records) == 1
    assert await harness.ask("another") == "20 tokens"
    harness.engine.compiling_s = 0.0
    await asyncio.sleep(6)
    assert harness.control.notes() == []
    await harness.close()


@on_virtual_time
@pytest.mark.parametrize("restart_hung", [True, False])
async def test_an_engine_whose_grammars_wait_for_one_is_replaced(restart_hung: bool) -> None:
    """Whatever is said of hangs: nothing else ends a compilation. Requests wait for the next one."""
    harness = Harness(hang_after_s=10.0, slow_step_after_s=40.0, restart_hung=restart_hung)
    harness.engine.compiling_s = harness.engine.compilations_held_s = 39.0
    await asyncio.sleep(6)
    assert (harness.engine_state, harness.supervisor.hangs) == (EngineState.UP, 0)
    harness.engine.compiling_s = harness.engine.compilations_held_s = 41.0
    await asyncio.sleep(0.3)
    harness.engine.compiling_s = harness.engine.compilations_held_s = 0.0
    await asyncio.sleep(START_S - 5)
    assert await harness.ask("waits") == "20 tokens"
    assert (harness.supervisor.deaths, harness.supervisor.hangs) == ({Cause.HANG: 1}, 1)
    assert harness.control.notes() == []
    await harness.close()


@on_virtual_time
async def test_an_engine_that_is_not_to_be_replaced_compiles_on() -> None:
    """Without restarts its end would be the server's."""
    harness = Harness(hang_after_s=10.0, max_restarts=0)
    harness.engine.compiling_s = harness.engine.compilations_held_s = 999.0
    await asyncio.sleep(6)
    assert (harness.engine_state, harness.supervisor.deaths) == (EngineState.UP, {})
    await harness.close()


@on_virtual_time
async def test_a_slow_step_is_not_taken_for_a_hang() -> None:
    """By its own report the engine is at a step: ready for longer than ``hang_after_s``, not for ever; a step that ends
    in time has no effect."""
    harness = Harness(hang_after_s=10.0, slow_step_after_s=40.0, restart_hung=True)
    running = harness.ask("running", timeout_s=59.0)
    await asyncio.sleep(0.5)
    harness.engine.slow = True
    await asyncio.sleep(38)
    assert (harness.engine_state, harness.supervisor.hangs, harness.control.not_ready()) == (EngineState.UP, 0, [])
    harness.engine.slow = False
    assert await running == "20 tokens"
    harness.engine.slow = True
    await asyncio.sleep(39)
    assert harness.engine_state is EngineState.UP
    await asyncio.sleep(3)
    assert harness.supervisor.hangs == 1
    harness.engine.slow = False
    await asyncio.sleep(START_S)
    assert harness.supervisor.deaths == {Cause.HANG: 1}
    await harness.close()


@on_virtual_time
async def test_an_engine_that_stops_within_a_slow_step_is_a_hung_one() -> None:
    """Its reports stop, and with them the excuse."""
    harness = Harness(hang_after_s=10.0)
    harness.engine.slow = True
    await asyncio.sleep(30)
    assert harness.engine_state is EngineState.UP
    harness.engine.stalled = True
    await asyncio.sleep(12)
    assert (harness.engine_state, harness.supervisor.hangs) == (EngineState.SILENT, 1)
    harness.engine.slow = harness.engine.stalled = False
    await asyncio.sleep(0.5)
    assert (harness.engine_state, harness.control.not_ready()) == (EngineState.UP, [])
    await harness.close()


@on_virtual_time
async def test_a_paused_engine_is_neither_ready_nor_hung() -> None:
    """No request is dispatched however long it lasts, whatever paused it; time-outs go on; then all are dispatched."""
    harness = Harness(hang_after_s=10.0)
    running = harness.ask("running", 200, timeout_s=50.0)
    await asyncio.sleep(0.5)
    harness.engine.paused = True  # past the policy client: by its core, or by another API server
    await asyncio.sleep(6)
    assert harness.control.not_ready() == ["the engine is paused"]
    late = harness.ask("late")
    await asyncio.sleep(60)
    assert (harness.engine_state, harness.supervisor.hangs, list(harness.engine.running)) == (EngineState.UP, 0, [])
    assert (await running, await late) == ("total_timeout", "queue_timeout")
    later = harness.ask("later")
    await asyncio.sleep(5)
    assert not later.done()
    harness.engine.paused = False
    await asyncio.sleep(2)
    assert harness.control.not_ready() == []
    assert await later == "20 tokens"
    await harness.close()


@on_virtual_time
@pytest.mark.parametrize("recycled", [True, False])
async def test_another_engine_is_not_paused(recycled: bool) -> None:
    """The pause ends with the engine that was paused, whether it died or was replaced."""
    harness = Harness()
    await harness.engine.sleep()
    assert harness.control.not_ready() == ["the engine is paused", "the engine is asleep"]
    harness.replacement.wakes = True
    if recycled:
        harness.control.recycle(headway.Caller(actor="test"), "test")
    else:
        harness.engine.die()
    await asyncio.sleep(1)
    assert harness.control.not_ready() == ["the engine is being replaced: starting another engine"]
    await asyncio.sleep(START_S - 5)
    assert await harness.ask("waiting") == "20 tokens"
    assert harness.control.not_ready() == []
    await harness.close()


@on_virtual_time
@pytest.mark.parametrize("restart_hung", [True, False])
async def test_an_engine_that_died_with_a_question_open_is_not_waited_for(restart_hung: bool) -> None:
    """Its client never reports that no answer will come: the next engine is queried anew, and not considered
    unresponsive."""
    harness = Harness(hang_after_s=10.0, restart_hung=restart_hung)
    await asyncio.sleep(5)
    harness.engine.stalled = True
    await asyncio.sleep(3)
    if not restart_hung:
        harness.engine.die()
    await asyncio.sleep(60 + START_S)
    assert (harness.engine_state, harness.control.not_ready()) == (EngineState.UP, [])
    assert harness.replacement.started == 1
    assert await harness.ask("late") == "20 tokens"
    await harness.close()


class DeafKind(PlainAdapter):
    """Sets the engine's limit by a call that a stalled engine does not answer."""

    async def limit_engine(self, engine: Any, seats: int) -> int:
        """The limit, once it has been heard."""
        await engine.ping()
        return seats


@on_virtual_time
@pytest.mark.parametrize("dies", [True, False])
async def test_a_switch_is_answered_though_the_engine_is_not_there_to_hear_it(dies: bool) -> None:
    """The switch holds at once; the engine gets it when there is one again, or when it responds."""
    harness = Harness(hang_after_s=10.0)
    harness.control.gateway.link.adapter = DeafKind()
    harness.engine.stalled = True
    caller = headway.Caller(actor="test")
    switch = asyncio.create_task(harness.control.switch("serial", expected_revision=None, caller=caller))
    await asyncio.sleep(1)
    assert not switch.done()
    if dies:
        harness.engine.die()
    await asyncio.sleep(5)
    done = await switch
    assert (done.name, done.engine_limit_confirmed) == ("serial", False)
    assert harness.control.audit.entries(1)[0].result == "applied; the engine has not confirmed its limit"
    assert harness.control.gateway.link.core_limit is None
    await asyncio.sleep(20)
    harness.engine.stalled = False
    await asyncio.sleep(START_S)
    assert (harness.engine_state, harness.control.gateway.link.core_limit) == (EngineState.UP, 1)
    assert harness.control.gateway.link.limit_confirmed
    await harness.close()


@on_virtual_time
async def test_an_engine_that_hangs_in_its_first_warm_up_is_replaced() -> None:
    """Once it has been silent for longer than a warm-up may take."""
    made: list[FakeEngine] = []

    def make() -> FakeEngine:
        made.append(FakeEngine(step_s=0.01))
        return made[-1]

    engine, catalogue = FakeEngine(step_s=0.01), PresetCatalogue()
    preset = catalogue.get("balanced").model_copy(
        update={"warmup": Warmup(timeout_s=60.0), "recovery": Recovery(restart_hung=True, hang_after_s=10.0)}
    )
    source = OneRequest(lambda request_id: engine.generate("x", FakeParams(), request_id))
    service = EngineService(
        engine, PlainAdapter(), preset, catalogue, source=source, warm_up=True, replacer=FactoryReplacer(engine, make)
    )
    engine.stalled = True
    serving = asyncio.create_task(service.serve())
    await asyncio.sleep(50.0)
    assert made == []
    await asyncio.sleep(200.0)
    assert len(made) == 1
    assert service.supervisor.deaths == {Cause.HANG: 1}
    assert service.control.not_ready() == []
    await serving
    service.parts.tasks.stop_all()


@on_virtual_time
async def test_a_shutdown_that_fails_does_not_keep_a_hung_engine() -> None:
    """It is replaced all the same."""

    class Stubborn(FakeEngine):
        def shutdown(self, timeout: float | None = None) -> None:
            raise RuntimeError("it cannot")

    catalogue = PresetCatalogue()
    recovery = Recovery(restart_hung=True, hang_after_s=10.0)
    preset = catalogue.get("balanced").model_copy(update={"recovery": recovery})
    engine: Any = headway.wrap(Stubborn(step_s=0.01), preset, engine_factory=lambda: Stubborn(step_s=0.01))
    async for _ in engine.generate("x", FakeParams(), "a"):
        pass
    engine.stalled = True
    await asyncio.sleep(60.0)
    assert engine.headway.supervisor.deaths == {Cause.HANG: 1}
    assert engine.headway.not_ready() == []
    engine.headway.gateway.link.close_from_any_thread(0)


@on_virtual_time
async def test_memory_that_is_short_at_the_start_of_another_engine_counts_as_that() -> None:
    """With fewer and fewer seats, and without new requests after the second time."""
    harness = Harness(seats=8, causes=(Cause.OUT_OF_MEMORY,) * 3, max_restarts=5)
    harness.replacement.fails = 2
    await asyncio.sleep(0.5)
    harness.engine.die()
    await asyncio.sleep(40.0)
    assert harness.supervisor.deaths == {Cause.OUT_OF_MEMORY: 3}
    assert harness.supervisor.restarts.seats_ratio < 0.5
    await harness.close()


@on_virtual_time
async def test_an_engine_is_recycled_before_the_first_request_of_a_program() -> None:
    """The engine is watched from then on."""
    engine: Any = headway.wrap(FakeEngine(step_s=0.01), engine_factory=lambda: FakeEngine(step_s=0.01))
    engine.headway.recycle(Caller("me"))
    await asyncio.sleep(5.0)
    assert engine.headway.not_ready() == []
    assert not engine.headway.engine_recycle.running
    async for _ in engine.generate("x", FakeParams(), "a"):
        pass
    engine.headway.gateway.link.close_from_any_thread(0)


def test_an_engine_that_is_made_for_nobody_is_shut_down() -> None:
    """The program has ended its engine meanwhile; or its factory makes another kind."""
    made: list[Any] = []

    class Watched(FakeEngine):
        down = False

        def shutdown(self, timeout: float | None = None) -> None:
            self.down = True

    class Other(Watched):
        pass

    def make(kind: type[Watched]) -> Any:
        time.sleep(0.2)
        made.append(kind(step_s=0.01))
        return made[-1]

    async def cancelled() -> None:
        replacer = FactoryReplacer(Watched(), lambda: make(Watched))
        starting = asyncio.create_task(replacer.start())
        await asyncio.sleep(0.05)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await until(lambda: made and made[0].down)
        with pytest.raises(TypeError, match="made a Other"):
            await FactoryReplacer(Watched(), lambda: make(Other)).start()

    asyncio.run(asyncio.wait_for(cancelled(), 30))
    assert [one.down for one in made] == [True, True]


def test_an_engine_whose_shutdown_takes_no_time_is_shut_down() -> None:
    """A program's own engine."""

    class Plain(FakeEngine):
        down = False

        def shutdown(self) -> None:  # type: ignore[override]  # not vLLM's
            self.down = True

    engine: Any = headway.wrap(Plain(step_s=0.01))
    engine.shutdown()
    assert engine.down
