"""A recycle with a spare engine in virtual time: both forms, every way it ends, and what becomes of the spare."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from engines import TrippingEngine, assert_no_residue, installed, outcomes
from small_presets import small_preset
from virtual_time import on_virtual_time

from headway.audit import Caller
from headway.engine.fake import FakeParams
from headway.errors import NoEngineError, Refused
from headway.operator.install import EngineParts
from headway.supervision.supervisor import Supervisor
from headway_policies import AdmissionState, Cause, Recovery
from headway_policies.memory.settings import Memory

ME = Caller("ann", "operator")
START_S = 8.0


class SpareReplacer:
    """Replaces a fake engine, by a spare where one was started; counts the starts, and what is alive."""

    def __init__(self, engine: TrippingEngine, why_not: str = "") -> None:
        self.why_not = why_not
        self.fails = self.dies_after_start = False
        self.starts = self.ended = self.killed = 0
        self.spare: asyncio.Task[None] | None = None
        self._engine = engine

    def cause(self) -> Cause:
        return Cause.CRASH

    def kill(self) -> None:
        self.killed += 1
        self._engine.die()

    async def start(self) -> None:
        try:
            if self.spare is not None:
                await self.spare
        except NoEngineError:
            self.spare = None
        if self.spare is None:
            await self._start()
        self.spare = None
        self._engine.stalled = False
        self._engine.revive()

    async def why_no_spare(self) -> str:
        await asyncio.sleep(0.2)
        return self.why_not

    async def start_spare(self) -> None:
        self.spare = asyncio.create_task(self._start())
        await asyncio.shield(self.spare)

    def spare_up(self) -> bool:
        return self.spare is not None and self.spare.done() and not self.dies_after_start

    def end_spare(self) -> None:
        if self.spare is not None:
            self.ended += 1
            self.spare.cancel()
            self.spare = None

    async def _start(self) -> None:
        self.starts += 1
        await asyncio.sleep(START_S)
        if self.fails:
            raise NoEngineError("no memory for another one")


class Harness:
    """A fake engine behind a gate with two seats, its supervisor, and a replacer that knows spares."""

    def __init__(self, why_not: str = "", *, drain_s: float = 60.0, **recovery: int | bool) -> None:
        update = {"recovery": Recovery.model_validate(recovery), "memory": Memory(recycle_drain_s=drain_s)}
        self.engine = TrippingEngine(step_s=0.1)
        self.replacer = SpareReplacer(self.engine, why_not)
        preset = small_preset(2).model_copy(update=update)
        self.control, self.parts = installed(self.engine, preset, supervise=self._supervise)
        self.parts.tasks.start("supervisor", self.supervisor.run())

    def _supervise(self, parts: EngineParts) -> Supervisor:
        self.supervisor = Supervisor(parts.gateway, self.replacer)
        return self.supervisor

    @property
    def result(self) -> str:
        """The last line of the audit."""
        return self.control.audit.entries(1)[0].result

    @property
    def form(self) -> str:
        """As the status has it."""
        return self.control.status().memory.recycle_form

    @property
    def deaths(self) -> dict[Cause, int]:
        return dict(self.supervisor.deaths)

    async def ask(self, request_id: str, tokens: int = 20) -> str:
        """The number of tokens, or the reason of its refusal."""
        seen = 0
        try:
            async for output in self.engine.generate("text", FakeParams(tokens), request_id):
                seen = len(output.tokens)
        except Refused as refused:
            return str(refused.reason)
        return f"{seen} tokens"

    async def recycle(self, for_s: float) -> None:
        """Begin one, and let so much time pass."""
        self.control.recycle(ME, "a test")
        await asyncio.sleep(for_s)

    async def close(self) -> None:
        """No spare is left, and no request has any state."""
        self.parts.tasks.stop_all()
        await asyncio.sleep(0)
        assert self.replacer.spare is None
        await assert_no_residue(self.control)


@on_virtual_time
async def test_the_old_engine_serves_while_the_new_one_starts_beside_it(caplog: pytest.LogCaptureFixture) -> None:
    """Requests that come meanwhile are served at once; the engine is replaced in an instant, and by the spare."""
    caplog.set_level("INFO", "headway")
    harness = Harness()
    await harness.recycle(1.0)
    assert (harness.control.gateway.gate.desk.mode.state, harness.form) == (
        AdmissionState.OPEN,
        "beside the old engine",
    )
    assert harness.control.status().memory.recycling
    async with asyncio.timeout(START_S - 2):  # before the spare is up
        assert await harness.ask("meanwhile") == "20 tokens"
    assert (harness.replacer.killed, harness.control.gateway.gate.desk.mode.state) == (0, AdmissionState.OPEN)
    running = asyncio.create_task(harness.ask("over the swap", 120))
    await asyncio.sleep(START_S)
    assert await running == "120 tokens"
    await asyncio.sleep(1.0)
    assert harness.result.endswith("s: started beside the old engine")
    assert (harness.replacer.starts, harness.replacer.killed, harness.replacer.ended) == (1, 1, 0)
    assert (harness.deaths, harness.supervisor.restarts.deaths) == ({Cause.RECYCLE: 1}, 0)
    assert harness.control.memory.recycled == {"command": 1}
    assert (outcomes(harness.control), harness.control.not_ready()) == ({"completed": 2}, [])
    assert "recycle: the new engine is started beside the old engine" in caplog.text
    await harness.close()


@on_virtual_time
async def test_without_memory_for_two_the_old_engine_ends_first() -> None:
    """As it was, and why, in the audit and the status."""
    why_not = "not enough memory, needs 12.0 GiB, free 3.5 GiB"
    harness = Harness(why_not)
    await harness.recycle(1.0)
    assert (harness.replacer.killed, harness.form) == (1, f"after the old engine ended: {why_not}")
    assert await harness.ask("waits") == "20 tokens"
    assert harness.result.endswith(f"s: started after the old engine ended: {why_not}")
    assert (harness.replacer.starts, harness.control.memory.recycled) == (1, {"command": 1})
    await harness.close()


@on_virtual_time
async def test_a_replacer_that_knows_no_spare_ends_the_old_engine_first() -> None:
    """Such as a program's own factory."""

    async def replace() -> None:
        await asyncio.sleep(1.0)

    control, parts = installed(TrippingEngine(), small_preset(2), replace=replace)
    control.recycle(ME)
    await asyncio.sleep(2.0)
    why = "after the old engine ended: this server cannot start two engines at a time"
    assert control.status().memory.recycle_form == why
    assert control.audit.entries(1)[0].result == f"applied after 1.0 s: started {why}"
    parts.tasks.stop_all()


@on_virtual_time
async def test_a_spare_that_does_not_start_changes_nothing() -> None:
    """The old engine goes on, without a pause; a later recycle may succeed."""
    harness = Harness()
    harness.replacer.fails = True
    running = asyncio.create_task(harness.ask("running", 200))
    await harness.recycle(START_S + 1)
    assert harness.result == "failed: the new engine did not start, and the old one goes on: no memory for another one"
    assert (harness.replacer.killed, harness.deaths) == (0, {})
    assert await running == "200 tokens"
    assert (harness.control.not_ready(), harness.control.memory.recycled.total()) == ([], 0)
    harness.replacer.fails = False
    await harness.recycle(START_S + 2)
    assert harness.result.startswith("applied")
    await harness.close()


@on_virtual_time
async def test_a_spare_that_dies_during_the_drain_changes_nothing() -> None:
    """The old engine is not ended for it."""
    harness = Harness()
    running = asyncio.create_task(harness.ask("running", 200))
    await harness.recycle(START_S + 1)
    assert harness.control.gateway.gate.desk.mode.state is AdmissionState.PAUSED
    harness.replacer.dies_after_start = True
    assert await running == "200 tokens"
    await asyncio.sleep(1.0)
    assert harness.result == "failed: the new engine has died, and the old one goes on"
    assert (harness.replacer.killed, await harness.ask("next")) == (0, "20 tokens")
    await harness.close()


@on_virtual_time
async def test_a_drain_that_takes_too_long_ends_the_spare() -> None:
    """The request goes on, and so does the old engine."""
    harness = Harness(drain_s=3.0)
    slow = asyncio.create_task(harness.ask("slow", 300))
    await harness.recycle(START_S + 5)
    assert harness.result == "given up: 1 seats still taken after 3 s"
    assert (harness.replacer.ended, harness.replacer.killed) == (1, 0)
    assert await slow == "300 tokens"
    await harness.close()


@pytest.mark.parametrize("fails", [False, True], ids=["and comes up", "and fails"])
@on_virtual_time
async def test_an_engine_that_dies_while_the_spare_starts_is_replaced_by_it(fails: bool) -> None:
    """One death, and one start where the spare comes up; where it fails, another engine is started after it."""
    harness = Harness()
    assert await harness.ask("before") == "20 tokens"
    await harness.recycle(4.0)
    harness.engine.die()
    harness.replacer.fails = fails
    await asyncio.sleep(1.0)
    assert harness.result == "overtaken: the engine died, and is replaced for that"
    await asyncio.sleep(START_S - 4)
    harness.replacer.fails = False
    assert await harness.ask("after") == "20 tokens"
    assert (harness.replacer.starts, harness.replacer.ended) == (2 if fails else 1, 0)
    assert harness.deaths == {Cause.CRASH: 1}
    assert (harness.control.memory.recycled.total(), harness.control.not_ready()) == (0, [])
    await harness.close()


@on_virtual_time
async def test_a_hang_while_the_spare_starts_is_ended_by_it() -> None:
    """The engine that hangs is killed, not the spare."""
    harness = Harness(restart_hung=True, hang_after_s=5)
    running = asyncio.create_task(harness.ask("running", 200))
    await harness.recycle(1.0)
    harness.engine.stalled = True
    await running
    await asyncio.sleep(START_S)
    assert (harness.deaths, harness.replacer.starts, harness.replacer.ended) == ({Cause.HANG: 1}, 1, 0)
    assert (harness.result.split(":")[0], harness.control.not_ready()) == ("overtaken", [])
    await harness.close()


@on_virtual_time
async def test_an_engine_that_dies_and_is_not_replaced_leaves_no_spare() -> None:
    """There will be no other engine, not even the one that was starting."""
    harness = Harness(max_restarts=0)
    await harness.recycle(4.0)
    harness.engine.die()
    await asyncio.sleep(1.0)
    assert (harness.replacer.spare, harness.replacer.ended) == (None, 1)
    assert harness.control.gateway.link.engine_lost
    harness.engine.revive()
    await harness.close()


async def _drain(harness: Harness) -> None:
    harness.control.gateway.gate.drain()


async def _close(harness: Harness) -> None:
    harness.control.gateway.link.close_from_any_thread(None)


async def _stop_tasks(harness: Harness) -> None:
    harness.parts.tasks.stop_all()


@pytest.mark.parametrize("died", [False, True], ids=["the old engine lives", "the old engine has died"])
@pytest.mark.parametrize(
    ("end", "result"),
    [
        (_drain, "given up: the server is draining"),
        (_close, "given up: the server is draining"),
        (_stop_tasks, "ended: the server closes"),
    ],
    ids=["drain", "shutdown", "the loop ends"],
)
@on_virtual_time
async def test_a_server_that_ends_while_the_spare_starts_leaves_none(
    end: Callable[[Harness], Awaitable[None]], result: str, died: bool
) -> None:
    """Whether the recycle waits for it, or the supervisor."""
    harness = Harness()
    await harness.recycle(4.0)
    if died:
        harness.engine.die()
        await asyncio.sleep(1.0)
        result = "overtaken: the engine died, and is replaced for that"
    await end(harness)
    await asyncio.sleep(1.0)
    assert harness.result == result
    if not (died and end is _drain):  # a drain alone still serves what is running, by the spare
        assert (harness.replacer.spare, harness.replacer.ended) == (None, 1)
        assert harness.replacer.starts == 1
    harness.parts.tasks.stop_all()
    await asyncio.sleep(1.0)
    assert harness.replacer.spare is None
