"""The supervisor on virtual time: engines that die, hang or run out of memory, and what becomes of everybody."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from engines import TrippingEngine, assert_no_residue, installed, outcomes
from small_presets import small_preset
from virtual_time import on_virtual_time

import headway
from headway.engine.fake import FakeParams
from headway.engine.port import PlainAdapter
from headway.errors import Refused
from headway.operator.install import EngineParts
from headway.supervision.supervisor import Supervisor
from headway_policies import Cause, EngineState, Recovery

START_S = 12.0


class FragileEngine(TrippingEngine):
    """A fake engine that dies of single requests: of ``deadly`` ones whenever they are about to run."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.deadly: set[str] = set()

    async def generate(self, prompt: Any, sampling_params: Any, request_id: str, **options: Any) -> Any:
        """As the fake's own, unless it is deadly."""
        if request_id.split("~")[0] in self.deadly:
            self.die()
        async for output in super().generate(prompt, sampling_params, request_id, **options):
            yield output


@dataclass
class Replacement:
    """Replaces a fake engine by making it well again, after a while, or not at all."""

    engine: FragileEngine
    causes: list[Cause] = field(default_factory=list)
    fails: int = 0
    started: int = 0
    killed: int = 0
    wakes: bool = False

    def cause(self) -> Cause:
        """The next of the causes; a crash when there is none left."""
        return self.causes.pop(0) if self.causes else Cause.CRASH

    def kill(self) -> None:
        """End it."""
        self.killed += 1
        self.engine.die()

    async def start(self) -> None:
        """Another one."""
        self.started += 1
        await asyncio.sleep(START_S)
        if self.fails:
            self.fails -= 1
            raise RuntimeError("no memory for another engine")
        self.engine.stalled = False
        if self.wakes:
            self.engine.paused = self.engine.asleep = False
        self.engine.revive()


class House:
    """A fake engine behind a gate, with a supervisor that has already begun to look."""

    def __init__(self, seats: int = 2, causes: tuple[Cause, ...] = (), **recovery: Any) -> None:
        preset = small_preset(seats).model_copy(update={"recovery": Recovery(**recovery)})
        self.engine = FragileEngine(step_s=0.1)
        self.replacement = Replacement(self.engine, list(causes))
        self.probes = 0
        self.control, self.parts = installed(self.engine, preset, supervise=self._supervise)
        self.tasks = self.parts.tasks
        self.tasks.start("supervisor", self.supervisor.run())

    def _supervise(self, parts: EngineParts) -> Supervisor:
        self.supervisor = Supervisor(parts.gateway, self.replacement, self._probe)
        return self.supervisor

    async def _probe(self) -> None:
        self.probes += 1

    @property
    def standing(self) -> EngineState:
        """How the engine stands, for the desk."""
        return self.control.gateway.gate.desk.engine

    def ask(self, request_id: str, tokens: int = 20, *, whole: bool = False, **options: Any) -> asyncio.Task[str]:
        """One request; its answer is the number of tokens, or the reason of its refusal."""

        async def run() -> str:
            seen = 0
            try:
                async for one in self.engine.generate("text", FakeParams(tokens), request_id, **options):
                    seen = len(one.tokens)
            except Refused as refused:
                return str(refused.reason)
            return f"{seen} tokens"

        return asyncio.create_task(run())

    async def close(self) -> None:
        """Nothing is left of anybody."""
        self.tasks.stop_all()
        await asyncio.sleep(0)
        await assert_no_residue(self.control)


@on_virtual_time
async def test_a_request_without_output_is_retried_and_one_with_output_fails(caplog: pytest.LogCaptureFixture) -> None:
    """The engine dies with one stream under way, one just begun and one waiting: an error, and two whole answers."""
    caplog.set_level(logging.INFO, "headway.supervision")
    house = House()
    flowing = house.ask("flowing")
    await asyncio.sleep(0.5)
    fresh, waiting = house.ask("fresh"), house.ask("waiting")
    await asyncio.sleep(0.05)
    house.engine.die()
    await asyncio.sleep(1)
    assert house.standing is EngineState.RESTARTING
    assert house.control.not_ready() == ["the engine is being replaced: starting another engine"]
    assert [one.done() for one in (flowing, fresh, waiting)] == [True, False, False]
    await asyncio.sleep(5)
    late = house.ask("late")
    assert await asyncio.gather(flowing, fresh, waiting, late) == [
        "engine_lost", "20 tokens", "queue_timeout", "20 tokens",
    ]  # fmt: skip
    assert (house.probes, house.standing, house.control.not_ready()) == (1, EngineState.UP, [])
    assert house.control.gateway.gate.desk.ledger.classes["normal"].retries == 1
    assert "requests that were running at the death are retried first, one at a time: 1" in caplog.text
    await house.close()


@on_virtual_time
async def test_the_requests_that_a_dead_engine_was_running_are_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """First the death and what follows; then each request, nothing of its text; of many, some."""
    house = House(seats=30)
    requests = [house.ask(f"r{number}", whole=number > 0) for number in range(25)]
    await asyncio.sleep(0.15)
    with caplog.at_level(logging.INFO, "headway"):
        house.engine.die()
        await asyncio.sleep(1)
    lines = [record.getMessage() for record in caplog.records if record.levelno > logging.INFO]
    assert lines[0] == "the engine died (crash): restart attempt 1 of 3 in 0 s, with 100 % of the seats"
    size = "class normal, prompt tokens: 1, sequences: 1"
    assert lines[1] == f"running when the engine died: request r0 ({size}, had sent output)"
    assert len(lines) == 22
    assert lines[-1] == "running when the engine died: 5 more requests"
    await asyncio.gather(*requests)
    await house.close()


@on_virtual_time
async def test_the_queue_keeps_its_time_outs_while_there_is_no_engine() -> None:
    """Who waits is told when its ten seconds in the queue are over, not when an engine comes."""
    house = House(seats=1)
    house.ask("running")
    await asyncio.sleep(0.01)
    waiting = house.ask("waiting")
    await asyncio.sleep(0.05)
    house.engine.die()
    await asyncio.sleep(9.8)
    assert not waiting.done()
    await asyncio.sleep(0.2)
    assert waiting.result() == "queue_timeout"
    await asyncio.sleep(30)
    await house.close()


@on_virtual_time
async def test_suspects_go_one_after_another_before_anybody_else() -> None:
    """Four were running: after the crash one runs at a time, then newcomers, then all seats are used again."""
    house = House(seats=4)
    suspects = [house.ask(f"suspect-{number}") for number in range(4)]
    await asyncio.sleep(0.05)
    house.engine.die()
    await asyncio.sleep(START_S - 1)
    newcomers = [house.ask(f"newcomer-{number}") for number in range(4)]
    most: dict[str, int] = {"suspect": 0, "newcomer": 0}
    while not all(one.done() for one in newcomers):
        running = Counter(one.split("-")[0] for one in house.engine.running)
        assert len(running) <= 1, "a newcomer ran beside a suspect"
        for kind, number in running.items():
            most[kind] = max(most[kind], number)
        await asyncio.sleep(0.05)
    assert most == {"suspect": 1, "newcomer": 4}
    assert {one.result() for one in [*suspects, *newcomers]} == {"20 tokens"}
    await house.close()


@on_virtual_time
async def test_a_request_that_was_there_at_two_crashes_is_not_sent_a_third_time() -> None:
    """The deadly one is refused as poison, and its companions are served."""
    house = House(seats=3)
    house.engine.deadly = {"deadly"}
    tasks = [house.ask(name) for name in ("one", "deadly", "two")]
    assert await asyncio.gather(*tasks) == ["20 tokens", "poison", "20 tokens"]
    assert house.supervisor.deaths[Cause.CRASH] == 2
    assert outcomes(house.control) == {"completed": 2, "engine_lost": 1}
    await house.close()


@on_virtual_time
async def test_past_the_last_try_everybody_is_answered() -> None:
    """Two tries that fail: who waited, who came meanwhile and who comes later are told; the engine counts as lost."""
    house = House(max_restarts=2, backoff_s=3.0)
    house.replacement.fails = 9
    early = house.ask("early", timeout_s=59.0)
    await asyncio.sleep(0.05)
    house.engine.die()
    await asyncio.sleep(START_S + 1)
    assert house.supervisor.trying == "pausing for 3 s"
    await asyncio.sleep(8)
    waiting = house.ask("waiting")
    await asyncio.sleep(START_S - 5)
    assert (early.result(), waiting.result()) == ("engine_lost", "engine_lost")
    assert (house.replacement.started, house.control.gateway.link.engine_lost) == (2, True)
    assert await house.ask("later") == "engine_lost"
    assert house.engine.errored
    await house.close()


@on_virtual_time
async def test_while_there_is_hope_the_engine_does_not_count_as_dead() -> None:
    """vLLM ends the server when ``errored`` is true: so it is not, until there is no try left."""
    house = House(max_restarts=1)
    house.replacement.fails = 1
    house.engine.die()
    await asyncio.sleep(1)
    assert not house.engine.errored
    await asyncio.sleep(START_S)
    assert house.engine.errored
    await house.close()


@on_virtual_time
async def test_out_of_memory_halves_the_limit_then_closes_the_door() -> None:
    """First: replayed, two of four seats. Second in a row: everybody is told, until another engine has answered. A
    healthy while later all seats are open."""
    house = House(seats=4, causes=(Cause.OUT_OF_MEMORY, Cause.OUT_OF_MEMORY), healthy_after_s=60.0)
    gate = house.control.gateway.gate
    first = [house.ask(f"first-{number}") for number in range(4)]
    await asyncio.sleep(0.05)
    house.engine.die()
    assert set(await asyncio.gather(*first)) == {"20 tokens"}
    assert gate.desk.limit == 2
    second = [house.ask(f"second-{number}") for number in range(4)]
    await asyncio.sleep(0.05)
    house.engine.die()
    assert set(await asyncio.gather(*second)) == {"out_of_memory"}
    assert house.control.not_ready() == ["the engine is not running: pausing for 1 s"]
    assert await house.ask("meanwhile") == "out_of_memory"
    await asyncio.sleep(START_S + 2)
    assert (house.standing, gate.desk.limit, house.control.not_ready()) == (EngineState.UP, 1, [])
    assert await house.ask("after") == "20 tokens"
    await asyncio.sleep(60)
    assert gate.desk.limit == 4
    await house.close()


@on_virtual_time
async def test_a_silent_engine_gets_nobody_until_it_answers() -> None:
    """After 30 s without a sign of life it is not ready; who comes waits, time-outs go on; then everything goes on."""
    house = House(hang_after_s=30.0)
    running = house.ask("running", 200, timeout_s=50.0)
    await asyncio.sleep(0.5)
    house.engine.stalled = True
    await asyncio.sleep(29)
    assert (house.standing, house.control.not_ready()) == (EngineState.UP, [])
    await asyncio.sleep(3)
    assert (house.standing, house.supervisor.hangs) == (EngineState.SILENT, 1)
    assert house.control.not_ready() == ["the engine is unresponsive"]
    late = house.ask("late")
    await asyncio.sleep(0.05)
    assert (late.done(), len(house.engine.running)) == (False, 1)
    house.engine.stalled = False
    await asyncio.sleep(0.5)
    assert (house.standing, house.control.not_ready()) == (EngineState.UP, [])
    assert await late == "20 tokens"
    assert await running == "total_timeout"
    await house.close()


@on_virtual_time
async def test_an_idle_engine_that_hangs_is_noticed() -> None:
    """Nobody has to suffer first: it is asked when it has said nothing for a while."""
    house = House(hang_after_s=10.0)
    await asyncio.sleep(100)
    assert house.standing is EngineState.UP
    house.engine.stalled = True
    await asyncio.sleep(12)
    assert house.standing is EngineState.SILENT
    house.engine.stalled = False
    await asyncio.sleep(0.5)
    assert house.standing is EngineState.UP
    await house.close()


@on_virtual_time
async def test_a_hung_engine_is_ended_where_the_preset_says_so() -> None:
    """It is replaced like one that died, and what had shown nothing goes again."""
    house = House(hang_after_s=10.0, restart_hung=True)
    house.engine.stalled = True
    fresh = house.ask("fresh", timeout_s=59.0)
    assert await fresh == "20 tokens"
    assert house.supervisor.deaths == {Cause.HANG: 1}
    await house.close()


@on_virtual_time
async def test_a_slow_step_is_not_taken_for_a_hang() -> None:
    """By its own report the engine is at a step: ready for longer than ``hang_after_s``, not for ever; a step that ends
    in time has cost nobody anything."""
    house = House(hang_after_s=10.0, slow_step_after_s=40.0, restart_hung=True)
    running = house.ask("running", timeout_s=59.0)
    await asyncio.sleep(0.5)
    house.engine.slow = True
    await asyncio.sleep(38)
    assert (house.standing, house.supervisor.hangs, house.control.not_ready()) == (EngineState.UP, 0, [])
    house.engine.slow = False
    assert await running == "20 tokens"
    house.engine.slow = True
    await asyncio.sleep(39)
    assert house.standing is EngineState.UP
    await asyncio.sleep(3)
    assert house.supervisor.hangs == 1
    house.engine.slow = False
    await asyncio.sleep(START_S)
    assert house.supervisor.deaths == {Cause.HANG: 1}
    await house.close()


@on_virtual_time
async def test_an_engine_that_stops_within_a_slow_step_is_a_hung_one() -> None:
    """Its reports stop, and with them the excuse."""
    house = House(hang_after_s=10.0)
    house.engine.slow = True
    await asyncio.sleep(30)
    assert house.standing is EngineState.UP
    house.engine.stalled = True
    await asyncio.sleep(12)
    assert (house.standing, house.supervisor.hangs) == (EngineState.SILENT, 1)
    house.engine.slow = house.engine.stalled = False
    await asyncio.sleep(0.5)
    assert (house.standing, house.control.not_ready()) == (EngineState.UP, [])
    await house.close()


@on_virtual_time
async def test_a_paused_engine_is_neither_ready_nor_hung() -> None:
    """Nobody goes to it however long it lasts, whoever paused it; time-outs go on; then everybody goes."""
    house = House(hang_after_s=10.0)
    running = house.ask("running", 200, timeout_s=50.0)
    await asyncio.sleep(0.5)
    house.engine.paused = True  # past the policy client: by its core, or by another API server
    await asyncio.sleep(6)
    assert house.control.not_ready() == ["the engine is paused"]
    late = house.ask("late")
    await asyncio.sleep(60)
    assert (house.standing, house.supervisor.hangs, list(house.engine.running)) == (EngineState.UP, 0, [])
    assert (await running, await late) == ("total_timeout", "queue_timeout")
    later = house.ask("later")
    await asyncio.sleep(5)
    assert not later.done()
    house.engine.paused = False
    await asyncio.sleep(2)
    assert house.control.not_ready() == []
    assert await later == "20 tokens"
    await house.close()


@on_virtual_time
@pytest.mark.parametrize("recycled", [True, False])
async def test_another_engine_is_not_paused(recycled: bool) -> None:
    """The pause ends with the engine that was paused, whether it died or was replaced."""
    house = House()
    await house.engine.sleep()
    assert house.control.not_ready() == ["the engine is paused", "the engine is asleep"]
    house.replacement.wakes = True
    if recycled:
        house.control.recycle(headway.Caller(actor="test"), "test")
    else:
        house.engine.die()
    await asyncio.sleep(1)
    assert house.control.not_ready() == ["the engine is being replaced: starting another engine"]
    await asyncio.sleep(START_S - 5)
    assert await house.ask("waiting") == "20 tokens"
    assert house.control.not_ready() == []
    await house.close()


@on_virtual_time
@pytest.mark.parametrize("restart_hung", [True, False])
async def test_an_engine_that_died_with_a_question_open_is_not_waited_for(restart_hung: bool) -> None:
    """Its client never says that no answer will come: the next engine is asked anew, and not taken for a silent one."""
    house = House(hang_after_s=10.0, restart_hung=restart_hung)
    await asyncio.sleep(5)
    house.engine.stalled = True
    await asyncio.sleep(3)
    if not restart_hung:
        house.engine.die()
    await asyncio.sleep(60 + START_S)
    assert (house.standing, house.control.not_ready()) == (EngineState.UP, [])
    assert house.replacement.started == 1
    assert await house.ask("late") == "20 tokens"
    await house.close()


class DeafKind(PlainAdapter):
    """Tells the engine's limit by a question that a stalled engine does not answer."""

    async def limit_engine(self, engine: Any, seats: int) -> int:
        """The limit, once it has been heard."""
        await engine.ping()
        return seats


@on_virtual_time
@pytest.mark.parametrize("dies", [True, False])
async def test_a_switch_is_answered_though_the_engine_is_not_there_to_hear_it(dies: bool) -> None:
    """It holds at once; the engine is told when there is one again, or when it goes on."""
    house = House(hang_after_s=10.0)
    house.control.gateway.link.adapter = DeafKind()
    house.engine.stalled = True
    caller = headway.Caller(actor="test")
    switch = asyncio.create_task(house.control.switch("latency", expected_revision=None, caller=caller))
    await asyncio.sleep(1)
    assert not switch.done()
    if dies:
        house.engine.die()
    await asyncio.sleep(5)
    done = await switch
    assert (done.preset.name, done.engine_limit_confirmed) == ("latency", False)
    assert house.control.audit.entries(1)[0]["result"] == "applied; the engine has not confirmed its limit"
    assert house.control.gateway.link.core_limit is None
    await asyncio.sleep(20)
    house.engine.stalled = False
    await asyncio.sleep(START_S)
    assert (house.standing, house.control.gateway.link.core_limit) == (EngineState.UP, 8)
    assert house.control.gateway.link.limit_confirmed
    await house.close()


@on_virtual_time
async def test_a_recycle_is_overtaken_by_an_engine_that_dies() -> None:
    """One death, one engine started, and nothing of the recycle is left to be counted with the next death."""
    house = House()
    running = house.ask("running", 200, timeout_s=100.0)
    await asyncio.sleep(0.5)
    house.control.recycle(headway.Caller(actor="test"), "test")
    await asyncio.sleep(0.5)
    house.engine.die()
    await asyncio.sleep(START_S + 1)
    assert await running == "engine_lost"
    assert (house.standing, house.control.not_ready(), house.replacement.killed) == (EngineState.UP, [], 0)
    assert house.supervisor.deaths == {Cause.CRASH: 1}
    assert house.control.reader.memory.recycled.total() == 0
    assert house.control.audit.entries(1)[0]["result"] == "overtaken: the engine died, and is replaced for that"
    house.engine.die()
    await asyncio.sleep(START_S + 10)
    assert (house.supervisor.deaths, house.replacement.started) == ({Cause.CRASH: 2}, 2)
    await house.close()


@on_virtual_time
async def test_a_recycle_replaces_a_living_engine_and_loses_nobody() -> None:
    """Who runs finishes, who comes waits; it is no death, and takes no try."""
    house = House()
    running = house.ask("running")
    await asyncio.sleep(0.5)
    house.control.recycle(headway.Caller(actor="test"), "test")
    await asyncio.sleep(0.1)
    assert await running == "20 tokens"
    await asyncio.sleep(START_S - 5)
    waiting = house.ask("waiting")
    assert await waiting == "20 tokens"
    assert house.replacement.started == 1
    assert (house.standing, house.supervisor.restarts.deaths) == (EngineState.UP, 0)
    await house.close()


@on_virtual_time
async def test_a_client_that_leaves_while_there_is_no_engine_is_counted_once() -> None:
    """Recalled and then cancelled: one outcome, and the others are served."""
    house = House()
    leaves, stays = house.ask("leaves"), house.ask("stays")
    await asyncio.sleep(0.05)
    house.engine.die()
    await asyncio.sleep(1)
    leaves.cancel()
    assert await stays == "20 tokens"
    assert outcomes(house.control) == {"cancelled_queued": 1, "completed": 1}
    await house.close()


@on_virtual_time
async def test_closing_ends_an_engine_that_is_still_starting() -> None:
    """Nobody wants it any more, and nobody waits for it: the server can end at once."""
    house = House()
    house.engine.die()
    await asyncio.sleep(1)
    assert house.replacement.started == 1
    house.control.gateway.link.close_from_any_thread(None)
    await asyncio.sleep(START_S + 1)
    assert house.replacement.killed > 0
    assert (house.standing, "supervisor" in house.tasks) == (EngineState.RESTARTING, False)
    await house.close()


@on_virtual_time
async def test_closing_ends_the_keeper() -> None:
    """A server that is shut down starts no other engine."""
    house = House()
    house.control.gateway.link.close_from_any_thread(None)
    house.engine.die()
    await asyncio.sleep(5)
    assert house.replacement.started == 0
    assert "supervisor" not in house.tasks
    await house.close()


@on_virtual_time
async def test_an_engine_that_dies_during_a_drain_ends_whom_it_ran_as_drained() -> None:
    """It is no fault of a server that closes, and whoever it ran is told so all the same."""
    house = House()
    running = house.ask("running")
    await asyncio.sleep(0.5)
    house.control.gateway.link.close_from_any_thread(None)
    house.engine.die()
    assert await running == "draining"
    assert outcomes(house.control) == {"drained": 1}
    assert not house.control.gateway.link.engine_lost
    await house.close()


@on_virtual_time
async def test_a_recycle_that_the_server_s_end_cuts_short_is_written_down() -> None:
    """The audit has how it ended, too."""
    house = House()
    house.control.recycle(headway.Caller(actor="test"), "test")
    await asyncio.sleep(1)
    house.tasks.stop_all()
    await asyncio.sleep(0)
    assert house.control.audit.entries(1)[0]["result"] == "ended: the server closes"
    house.engine.revive()
    house.control.gateway.link.engine_back()
    await house.close()
