"""A fake engine behind the gate that a warm-up makes ready."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from typing import Any

from engines import TrippingEngine, installed
from small_presets import small_preset

import headway
from headway.engine.fake import FakeOutput, FakeParams
from headway.operator.install import EngineParts
from headway.supervision.warmup_report import WarmupReport
from headway.warmup.keep_warm import TASK, KeepWarm
from headway.warmup.warmer import Warmer
from headway_policies import Preset
from headway_policies.engine.warmup import Stage, Warmup

SEATS = 4


class CachingEngine(TrippingEngine):
    """A fake engine with a prefix cache that can be cleared once its ``holds`` have passed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.resets, self.holds = 0, 0

    async def reset_prefix_cache(self) -> bool:
        """Count the call."""
        self.resets += 1
        return self.resets > self.holds


class Requests:
    """Requests for the fake engine; ``refuses`` are the stages it refuses, ``step_s`` the pace of each batch."""

    def __init__(
        self, engine: CachingEngine, *, refuses: tuple[Stage, ...] = (), step_s: tuple[float, ...] = ()
    ) -> None:
        self.engine, self.refuses = engine, refuses
        self.asked: list[Stage] = []
        self.places: list[int] = []
        self.brief = 0
        self.contexts: set[int] = set()
        self._paces = itertools.chain.from_iterable([pace_s] * SEATS for pace_s in step_s)

    def ask(self, stage: Stage, config: Warmup, index: int, request_id: str) -> AsyncGenerator[FakeOutput, None]:
        """One request, unless it is refused; one of ``contexts`` goes wrong."""
        self.asked.append(stage)
        self.places.append(index)
        if len(self.asked) in self.contexts:
            self.engine.trips_over.add(request_id)
        if stage in self.refuses:
            raise ValueError(f"no {stage} here")
        if stage is Stage.BATCH:
            self.engine.step_s = next(self._paces, self.engine.step_s)
        return self.engine.generate("made up", FakeParams(config.answer_tokens(stage)), request_id)

    def short_request(self, request_id: str) -> AsyncGenerator[FakeOutput, None]:
        """One of one token; one of ``contexts`` goes wrong."""
        self.brief += 1
        if self.brief in self.contexts:
            self.engine.trips_over.add(request_id)
        return self.engine.generate("made up", FakeParams(1), request_id)

    def refused(self, error: Exception) -> bool:
        """By its type."""
        return isinstance(error, ValueError)


class Harness:
    """A fake engine behind the gate, which is not warm yet."""

    def __init__(self, control: headway.Control, parts: EngineParts) -> None:
        self.control, self.parts = control, parts
        self.gateway, self.tasks, self.activity = parts.gateway, parts.tasks, parts.activity

    @property
    def report(self) -> WarmupReport:
        """How the warm-up stands."""
        return self.parts.warmup.report

    async def warm_up(self, requests: Requests) -> None:
        """As a server does it before it listens."""
        await Warmer(self.parts, requests).warm_up()

    async def rewarm(self, requests: Requests) -> None:
        """As the supervisor does it with another engine."""
        await Warmer(self.parts, requests).rewarm()

    def keep_warm(self, requests: Requests) -> None:
        """From now on."""
        self.tasks.start(TASK, KeepWarm(self.parts, requests).run())


def warming(**keys: Any) -> tuple[CachingEngine, Harness, Requests]:
    """A fake engine behind the gate, under a preset with these keys of ``[warmup]``, and requests for it."""
    preset: Preset = small_preset(SEATS).model_copy(update={"warmup": Warmup(**keys)})
    engine = CachingEngine()
    control, parts = installed(engine, preset, warm_up=True)
    return engine, Harness(control, parts), Requests(engine)
