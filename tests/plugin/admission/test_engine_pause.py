"""Pause and sleep through the policy client: dispatch to the engine, and the readiness of the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest
from engines import TrippingEngine, assert_no_residue, outcomes
from small_presets import small_preset
from virtual_time import on_virtual_time

import headway
from headway.engine.fake import FakeOutput, FakeParams
from headway.engine.port import PlainAdapter
from headway.errors import Refused
from headway_policies import AdmissionState, Block

PAUSED, ASLEEP = "the engine is paused", "the engine is asleep"


class PausingEngine(TrippingEngine):
    """A fake engine whose pauses take a while, fail on demand, and end when their requests do (mode ``wait``)."""

    def __init__(self) -> None:
        super().__init__(step_s=0.1)
        self.fails = False
        self.takes_s = 0.0

    async def pause_generation(self, *, mode: str = "abort", clear_cache: bool = True) -> None:
        """The scheduler is paused before the caches are cleared; that may fail."""
        await asyncio.sleep(self.takes_s)
        if self.fails:
            raise RuntimeError("no pause")
        if mode == "wait":
            while self.running:  # noqa: ASYNC110 - an engine steps
                await asyncio.sleep(self.step_s)
        self.paused = True


class TryAgainError(RuntimeError):
    """The refusal of a call by an engine that computes nothing of it."""


class RefusingEngine(PausingEngine):
    """A pausing engine that refuses each call that reaches it while it is paused, as vLLM does from 0.33 on."""

    def __init__(self) -> None:
        super().__init__()
        self.comes_after_s = 0.0
        self.refuses = False
        self.refused: list[str] = []

    async def generate(
        self, prompt: Any, sampling_params: FakeParams, request_id: str, *, priority: int = 0, **options: Any
    ) -> AsyncGenerator[FakeOutput, None]:
        """As the fake's own; a call reaches the engine a while after its dispatch."""
        await asyncio.sleep(self.comes_after_s)
        if self.paused or self.refuses:
            self.refused.append(request_id)
            raise TryAgainError("paused")
        async for output in super().generate(prompt, sampling_params, request_id, priority=priority, **options):
            yield output


class RefusalsKnown(PlainAdapter):
    """Knows the refusal of that engine."""

    def takes_later(self, error: Exception) -> bool:
        """By its class."""
        return isinstance(error, TryAgainError)


class Harness:
    """An engine behind a gate of two seats; one that dies is replaced where there is a factory."""

    def __init__(
        self,
        engine_factory: Callable[[], PausingEngine] | None = None,
        engine: PausingEngine | None = None,
    ) -> None:
        self.engine = headway.wrap(engine or PausingEngine(), preset=small_preset(2), engine_factory=engine_factory)
        self.control: headway.Control = self.engine.headway

    @property
    def why(self) -> list[str]:
        """Why it is not ready."""
        return self.control.not_ready()

    def ask(self, request_id: str, tokens: int = 5, **options: Any) -> asyncio.Task[int]:
        """One request; its answer is the number of tokens."""

        async def run() -> int:
            outputs = self.engine.generate("text", FakeParams(tokens), request_id, **options)
            return [len(one.tokens) async for one in outputs][-1]

        return asyncio.create_task(run())

    async def close(self) -> None:
        """No request has any state left."""
        await assert_no_residue(self.control)


def refusing() -> Harness:
    """A harness whose engine refuses calls while it is paused."""
    harness = Harness(engine=RefusingEngine())
    harness.control.gateway.link.adapter = RefusalsKnown()
    return harness


Change = Callable[[Any], Awaitable[Any]]


@on_virtual_time
@pytest.mark.parametrize(
    "steps",
    [
        [("pause", [PAUSED]), ("resume", [])],
        [("sleep", [PAUSED, ASLEEP]), ("wake", [])],
        [("pause", [PAUSED]), ("sleep", [PAUSED, ASLEEP]), ("resume", [ASLEEP]), ("wake", [])],
        [("sleep", [PAUSED, ASLEEP]), ("wake some", [PAUSED, ASLEEP]), ("wake", [])],
        [("doze", [PAUSED]), ("resume", [])],
        [("pause", [PAUSED]), ("pause", [PAUSED]), ("resume", []), ("resume", [])],
    ],
    ids=["pause", "sleep", "sleep while paused", "awake in part", "sleep of level 0", "twice"],
)
async def test_no_request_is_dispatched_to_an_engine_that_is_paused_or_asleep(
    steps: list[tuple[str, list[str]]],
) -> None:
    """Not ready, with the reason, from each change to the next; waiting requests are dispatched when the last cause is
    gone, and not before."""
    changes: dict[str, Change] = {
        "pause": lambda engine: engine.pause_generation(),
        "resume": lambda engine: engine.resume_generation(),
        "sleep": lambda engine: engine.sleep(1),
        "doze": lambda engine: engine.sleep(0),
        "wake": lambda engine: engine.wake_up(),
        "wake some": lambda engine: engine.wake_up(["weights"]),
    }
    harness = Harness()
    waiting: asyncio.Task[int] | None = None
    for what, reasons in steps:
        await changes[what](harness.engine)
        assert harness.why == reasons
        waiting = waiting or harness.ask("waiting")
        await asyncio.sleep(1)
        assert waiting.done() is (not reasons)
    assert waiting is not None
    assert await waiting == 5
    await harness.close()


@on_virtual_time
async def test_an_engine_that_replaces_a_paused_one_is_not_paused() -> None:
    """Its pause ends with it: what waited is served."""
    harness = Harness(engine_factory=PausingEngine)
    assert await harness.ask("first") == 5
    await harness.engine.pause_generation()
    waiting = harness.ask("waiting")
    await asyncio.sleep(1)
    assert harness.why == [PAUSED]
    harness.engine.die()
    assert await waiting == 5
    assert harness.why == []
    await harness.close()


@on_virtual_time
async def test_no_request_is_dispatched_while_a_pause_begins() -> None:
    """Running requests finish (mode ``wait``), new ones wait meanwhile, and the pause completes."""
    harness = Harness()
    running = harness.ask("running", 30)
    await asyncio.sleep(0.5)
    pause = asyncio.create_task(harness.engine.pause_generation(mode="wait"))
    await asyncio.sleep(0.05)
    late = harness.ask("late")
    assert harness.why == [PAUSED]
    assert await running == 30
    await pause
    assert (harness.engine.started, harness.why) == (["running"], [PAUSED])
    await harness.engine.resume_generation()
    assert await late == 5
    await harness.close()


@on_virtual_time
@pytest.mark.parametrize("how", ["fails", "is cancelled"])
async def test_a_failed_pause_holds_no_request(how: str) -> None:
    """The caller gets the engine's error, and the engine's own state decides."""
    harness = Harness()
    harness.engine.fails, harness.engine.takes_s = True, 1.0
    pause = asyncio.create_task(harness.engine.pause_generation())
    await asyncio.sleep(0.5)
    late = harness.ask("late")
    if how == "is cancelled":
        pause.cancel()
    assert isinstance((await asyncio.gather(pause, return_exceptions=True))[0], RuntimeError | asyncio.CancelledError)
    assert harness.why == []
    assert await late == 5
    await harness.close()


@on_virtual_time
async def test_a_resume_that_comes_while_a_pause_is_waited_for_opens_the_gate() -> None:
    """The engine runs, so its word holds, though the pause is not answered yet."""
    harness = Harness()
    harness.engine.paused = True
    harness.engine.takes_s = 5.0
    pause = asyncio.create_task(harness.engine.pause_generation())
    await asyncio.sleep(0.5)
    assert harness.why == [PAUSED]
    await harness.engine.resume_generation()
    assert harness.why == []
    await pause
    assert harness.why == [PAUSED]
    await harness.engine.resume_generation()
    await harness.close()


@on_virtual_time
async def test_an_older_word_does_not_undo_a_change() -> None:
    """The answer to a query sent before the pause began, or before it ended, does not count."""
    harness = Harness()
    changes = harness.control.gateway.link.pause.changes
    await harness.engine.pause_generation()
    harness.control.gateway.link.pause.said(frozenset(), changes)
    harness.control.gateway.link.pause.said(frozenset(), changes + 1)
    assert harness.why == [PAUSED]
    harness.control.gateway.link.pause.said(frozenset(), changes + 2)
    assert harness.why == []


@on_virtual_time
async def test_the_engine_s_resume_does_not_undo_the_operator_s_pause_nor_the_reverse() -> None:
    """Each ends what it began."""
    harness = Harness()
    gate = harness.control.gateway.gate
    gate.pause()
    await harness.engine.pause_generation()
    await harness.engine.resume_generation()
    assert (gate.desk.mode.blocks, gate.desk.mode.state) == ({Block.OPERATOR}, AdmissionState.PAUSED)
    await harness.engine.pause_generation()
    gate.resume()
    assert (gate.desk.mode.blocks, harness.why) == ({Block.ENGINE_PAUSED}, [PAUSED])
    await harness.engine.resume_generation()
    assert gate.desk.mode.state is AdmissionState.OPEN


@on_virtual_time
async def test_an_engine_that_answers_late_is_believed_late() -> None:
    """The gate stays closed until the engine reports that it runs; no supervisor has to query it again."""
    harness = Harness()
    await harness.engine.pause_generation()
    harness.engine.stalled = True
    resume = asyncio.create_task(harness.engine.resume_generation())
    await asyncio.sleep(20)
    assert resume.done()
    assert harness.why == [PAUSED]
    harness.engine.stalled = False
    await asyncio.sleep(0.5)
    assert harness.why == []
    await harness.close()


@on_virtual_time
async def test_an_engine_that_does_not_say_is_held_no_longer_than_its_own_call() -> None:
    """Where the engine cannot be queried, only the call itself is known."""
    harness = Harness()
    kind = harness.control.gateway.link.adapter
    kind.ping = _nothing  # type: ignore[method-assign]  # an engine that cannot be asked
    harness.engine.takes_s = 1.0
    pause = asyncio.create_task(harness.engine.pause_generation())
    await asyncio.sleep(0.5)
    assert harness.why == [PAUSED]
    await pause
    assert harness.why == []


async def _nothing(engine: Any) -> None:
    return None


@on_virtual_time
async def test_a_call_that_a_pause_overtakes_waits_on_its_seat() -> None:
    """The engine refuses it; its client sees nothing of that, and has the whole answer after the resume."""
    harness = refusing()
    harness.engine.comes_after_s = 0.5
    early = harness.ask("early")
    await asyncio.sleep(0.2)
    await harness.engine.pause_generation()
    late = harness.ask("late")
    await asyncio.sleep(3)
    desk = harness.control.gateway.gate.desk
    assert (harness.engine.refused, harness.engine.started) == (["early"], [])
    assert (desk.seats_taken, desk.ledger.queued, harness.control.gateway.open_calls) == (1, 1, 0)
    await harness.engine.resume_generation()
    assert [await early, await late] == [5, 5]
    assert outcomes(harness.control) == {"completed": 2}
    await harness.close()


@on_virtual_time
async def test_a_refusal_tells_that_someone_else_has_paused_the_engine() -> None:
    """Nothing more is dispatched then, and all of it once the engine says that it runs."""
    harness = refusing()
    await asyncio.sleep(0.5)
    harness.engine.paused = True
    first = harness.ask("first")
    await asyncio.sleep(0.5)
    assert (harness.engine.refused, harness.why) == (["first"], [PAUSED])
    others = [harness.ask(name) for name in ("second", "third")]
    await asyncio.sleep(3)
    assert harness.engine.refused == ["first"]
    harness.engine.paused = False
    assert await asyncio.gather(first, *others) == [5, 5, 5]
    await harness.close()


@on_virtual_time
@pytest.mark.parametrize("how", ["its time runs out", "its client leaves"])
async def test_a_refused_call_waits_no_longer_than_its_request(how: str) -> None:
    """Its seat is free then, though the engine is still paused."""
    harness = refusing()
    harness.engine.comes_after_s = 0.5
    waiting = harness.ask("waiting", timeout_s=10)
    await asyncio.sleep(0.2)
    await harness.engine.pause_generation()
    await asyncio.sleep(5)
    assert harness.control.gateway.gate.desk.seats_taken == 1
    if how == "its client leaves":
        waiting.cancel()
    with pytest.raises((Refused, asyncio.CancelledError)) as ended:
        await waiting
    await asyncio.sleep(1)
    assert isinstance(ended.value, Refused) is (how == "its time runs out")
    assert (harness.control.gateway.gate.desk.seats_taken, harness.why) == (0, [PAUSED])
    await harness.engine.resume_generation()
    await harness.close()


@on_virtual_time
async def test_an_engine_that_refuses_while_it_says_it_runs_is_tried_twice() -> None:
    """A resume may have overtaken the query; after that the refusal is not of a pause, and the caller has it."""
    harness = refusing()
    harness.engine.refuses = True
    with pytest.raises(TryAgainError):
        await harness.ask("never")
    assert harness.engine.refused == ["never", "never~2"]
    harness.engine.refuses = False
    assert await harness.ask("later") == 5
    await harness.close()


@on_virtual_time
async def test_an_engine_that_dies_under_a_refused_call_is_another_one_s() -> None:
    """The next engine is not paused, and has it."""
    harness = Harness(engine_factory=RefusingEngine, engine=RefusingEngine())
    harness.control.gateway.link.adapter = RefusalsKnown()
    assert await harness.ask("first") == 5
    harness.engine.comes_after_s = 0.5
    waiting = harness.ask("waiting")
    await asyncio.sleep(0.2)
    await harness.engine.pause_generation()
    await asyncio.sleep(5)
    harness.engine.die()
    assert await waiting == 5
    await harness.close()
