"""A fake engine that dies on demand behind a gate, with a supervisor that replaces it, in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from engines import TrippingEngine, assert_no_residue, installed
from small_presets import small_preset

from headway.engine.fake import FakeParams
from headway.errors import Refused
from headway.operator.install import EngineParts
from headway.supervision.supervisor import Supervisor
from headway_policies import Cause, EngineState, Preset, Recovery

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


class Harness:
    """A fake engine behind a gate, with a supervisor that is already running."""

    def __init__(
        self, seats: int = 2, causes: tuple[Cause, ...] = (), *, preset: Preset | None = None, **recovery: Any
    ) -> None:
        preset = (preset or small_preset(seats)).model_copy(update={"recovery": Recovery(**recovery)})
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
    def engine_state(self) -> EngineState:
        """The engine's state, as the desk has it."""
        return self.control.gateway.gate.desk.mode.engine

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
        """No request has any state left."""
        self.tasks.stop_all()
        await asyncio.sleep(0)
        await assert_no_residue(self.control)
