"""An engine that steps and serves nothing, behind the whole of Headway in virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any

import pytest
from small_presets import small_preset
from virtual_time import on_virtual_time

import headway
from headway.engine.fake import FakeEngine, FakeOutput, FakeParams
from headway.engine.port import StepListener
from headway.operator.metrics.snapshot_families import snapshot_families
from headway_policies import EngineState, Load, Preset, Recovery
from headway_policies.engine import STUCK_WORDS, StuckCause


class StuckEngine(FakeEngine):
    """A fake engine that reports its steps while it has requests. Made ``stuck``, it goes on stepping and serves none.

    ``GRAMMAR`` needs ``compiling_s``, too, as with a real one.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.stuck: StuckCause | None = None
        self._listener: StepListener | None = None
        self._steps: asyncio.Task[None] | None = None

    def listen(self, listener: StepListener) -> None:
        """Report each step to a listener."""
        self._listener = listener

    async def generate(
        self, prompt: Any, sampling_params: FakeParams, request_id: str, **options: Any
    ) -> AsyncGenerator[FakeOutput, None]:
        """As the fake's own."""
        if self._steps is None or self._steps.done():
            self._steps = asyncio.create_task(self._step())
        async for output in super().generate(prompt, sampling_params, request_id, **options):
            yield output

    @property
    def _held_up(self) -> bool:
        return super()._held_up or self.stuck is not None

    async def _step(self) -> None:
        """Make steps until no request is left."""
        while True:
            await asyncio.sleep(self.step_s)
            if self._dead:
                return
            if not super()._held_up:
                self._report(sum(self.running.values()))
            if not self.running:
                return

    def _report(self, sequences: int) -> None:
        if self._listener is None:
            return
        admitted = self.stuck in (None, StuckCause.NO_TOKENS)
        load = Load(
            running=sequences if admitted else 0,
            waiting=0 if admitted else sequences,
            kv_usage_ratio=1.0 if self.stuck is StuckCause.KV_FULL else 0.1,
            inter_token_s=self.step_s if sequences and self.stuck is None else None,
            first_tokens=0,
            deferred=sequences if self.stuck in (StuckCause.GRAMMAR, StuckCause.DEFERRED) else 0,
        )
        self._listener.step(load, load.running, ())

    def shutdown(self, timeout: float | None = None) -> None:
        """Stop everything."""
        self.die()


def preset(**recovery: Any) -> Preset:
    """Four seats."""
    return small_preset(4).model_copy(update={"recovery": Recovery(**recovery)})


async def begun(fake: StuckEngine, **recovery: Any) -> tuple[Any, list[asyncio.Task[int]]]:
    """The wrapped engine, and three requests that run in it."""
    engine = headway.wrap(fake, preset(**recovery), engine_factory=lambda: StuckEngine(step_s=0.1))

    async def ask(name: str) -> int:
        return len([one async for one in engine.generate("text", FakeParams(200), name, timeout_s=59.0)])

    tasks = [asyncio.create_task(ask(f"r{number}")) for number in range(3)]
    await asyncio.sleep(1)
    return engine, tasks


def stuck_s(engine: Any) -> dict[str, float]:
    """The metric, by cause, where it is not 0."""
    (family,) = [one for one in snapshot_families(engine.headway.snapshot()) if "stuck" in one.name]
    return {one.labels["cause"]: one.value for one in family.samples if one.value}


async def ended_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel the requests."""
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError, headway.Rejected):
            await task


async def ended(engine: Any, tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Leave nothing behind."""
    await ended_tasks(tasks)
    engine.shutdown()


@on_virtual_time
@pytest.mark.parametrize("cause", StuckCause)
async def test_it_is_named_within_15_s_and_serves_on_by_itself(
    cause: StuckCause, caplog: pytest.LogCaptureFixture
) -> None:
    """In the status, the metric, the diagnosis and the readiness, once in the log; nothing is ended, also where a hung
    engine would be. Then all is as before, and the requests complete."""
    fake = StuckEngine(step_s=0.1)
    engine, tasks = await begun(fake, restart_hung=True)
    assert stuck_s(engine) == {}
    fake.stuck = cause
    fake.compiling_s = 9.0 if cause is StuckCause.GRAMMAR else 0.0
    await asyncio.sleep(15)
    control, words = engine.headway, STUCK_WORDS[cause]
    assert control.status().engine.stuck == cause
    assert list(stuck_s(engine)) == [cause]
    assert control.diagnostics.last.bottleneck == "engine_stuck"
    assert words[1:] in control.diagnostics.last.sentence
    assert len(control.diagnostics.last.remedies) == 3
    assert words in (control.not_ready() if cause.blocks_others else control.notes())
    assert control.status().ready is not cause.blocks_others
    assert sum(words in record.getMessage() for record in caplog.records if record.levelno == logging.ERROR) == 1
    await asyncio.sleep(15)
    fake.stuck, fake.compiling_s = None, 0.0
    await asyncio.sleep(1)
    assert (control.status().engine.stuck, stuck_s(engine)) == ("", {})
    assert (control.not_ready(), control.notes()) == ([], [])
    assert await asyncio.gather(*tasks) == [200] * 3
    assert (control.status().engine.hangs, sum(control.status().engine.deaths.values())) == (0, 0)
    await ended(engine, tasks)


@on_virtual_time
@pytest.mark.parametrize("cause", StuckCause)
async def test_clients_that_give_up_and_come_again_do_not_hide_it(cause: StuckCause) -> None:
    """Each after 0.3 to 1.5 s: it is named everywhere within 15 s, and from then on whenever that is read."""
    fake = StuckEngine(step_s=0.1)
    engine, tasks = await begun(fake)
    await ended_tasks(tasks)
    control, random = engine.headway, Random(1)

    async def ask_again(name: str) -> None:
        for number in count():
            with suppress(TimeoutError, headway.Rejected):
                async with asyncio.timeout(random.uniform(0.3, 1.5)):
                    async for _ in engine.generate("text", FakeParams(200), f"{name}-{number}"):
                        pass
            await asyncio.sleep(random.uniform(0.0, 0.2))

    fake.stuck = cause
    fake.compiling_s = 9.0 if cause is StuckCause.GRAMMAR else 0.0
    clients = [asyncio.create_task(ask_again(f"client {number}")) for number in range(2)]
    await asyncio.sleep(15)
    for _ in range(50):
        await asyncio.sleep(0.3)
        assert (control.status().engine.stuck, list(stuck_s(engine))) == (cause, [cause])
        assert control.diagnostics.last.bottleneck == "engine_stuck"
        assert STUCK_WORDS[cause] in (control.not_ready() if cause.blocks_others else control.notes())
    await ended(engine, clients)


@on_virtual_time
async def test_an_engine_that_is_silent_paused_or_new_is_not_called_stuck() -> None:
    """A silent one is a hang; a paused one is as it was ordered; one that replaces a stuck one has begun anew."""
    fake = StuckEngine(step_s=0.1)
    engine, tasks = await begun(fake)
    fake.stuck = StuckCause.NO_TOKENS
    await asyncio.sleep(9)
    assert engine.headway.status().engine.stuck == "no_tokens"
    fake.stalled = True
    await asyncio.sleep(12)
    assert engine.headway.gateway.gate.desk.mode.engine is EngineState.SILENT
    assert engine.headway.status().engine.stuck == ""
    fake.stalled = False
    await asyncio.sleep(9)
    assert engine.headway.status().engine.stuck == "no_tokens"
    await fake.pause_generation()
    await asyncio.sleep(7)
    assert engine.headway.not_ready() == ["the engine is paused"]
    await fake.resume_generation()
    fake.die()
    await asyncio.sleep(2)
    assert (engine.headway.status().engine.stuck, engine.headway.not_ready()) == ("", [])
    await ended(engine, tasks)
