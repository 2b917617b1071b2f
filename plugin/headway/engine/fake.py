"""A fake engine, for tests of programs that use Headway without a model.

The fake has the port of ``headway.engine``. Its tokens are invented, but it runs at most ``max_num_seqs`` sequences at
once, takes a step at a time, stops what is aborted, and can be made to stall, to be slow, to pause, to sleep or to die.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from headway.engine.port import prompt_tokens
from headway_policies import Progress


@dataclass(frozen=True, slots=True)
class FakeParams:
    """The sampling parameters of the fake."""

    max_tokens: int = 8
    n: int = 1


@dataclass(frozen=True, slots=True)
class FakeOutput:
    """A step's output of a request: all its tokens so far."""

    request_id: str
    tokens: tuple[int, ...]
    finished: bool
    finish_reason: str | None = None
    prompt_tokens: int = 0


class EngineDied(RuntimeError):
    """The fake engine is dead."""


class FakeEngine:
    """An engine that generates ``max_tokens`` numbered tokens, one every ``step_s`` seconds of the event loop."""

    def __init__(self, *, max_num_seqs: int = 64, step_s: float = 0.01, add_s: float = 0.0) -> None:
        self.max_num_seqs = max_num_seqs
        self.step_s = step_s
        self.add_s = add_s
        self.stalled = False
        self.slow = False
        self.paused = False
        self.asleep = False
        self.compiling_s = self.compilations_held_s = 0.0
        self._beats = 0
        self._works = 0
        self._dead = False
        self.running: dict[str, int] = {}
        self.most_running = 0
        self.started: list[str] = []
        self.priorities: dict[str, int] = {}
        self.aborted: list[str] = []

    @property
    def errored(self) -> bool:
        """Whether the engine is dead."""
        return self._dead

    async def generate(
        self, prompt: Any, sampling_params: FakeParams, request_id: str, *, priority: int = 0, **options: Any
    ) -> AsyncGenerator[FakeOutput, None]:
        """Yield an output in each step that is not held up. Raises EngineDied after ``die``."""
        if request_id in self.running:
            raise ValueError(f"request id {request_id} is already running")
        self.started.append(request_id)
        self.priorities[request_id] = priority
        self.running[request_id] = sampling_params.n
        try:
            if self.add_s:
                await asyncio.sleep(self.add_s)
            while sum(self.running.values()) - sampling_params.n >= self.max_num_seqs:  # noqa: ASYNC110 - an engine steps
                await asyncio.sleep(self.step_s)
            self.most_running = max(self.most_running, sum(self.running.values()))
            size = prompt_tokens(prompt)
            for done in range(1, sampling_params.max_tokens + 1):
                await asyncio.sleep(self.step_s)
                while self._held_up and request_id in self.running and not self._dead:  # noqa: ASYNC110 - an engine steps
                    await asyncio.sleep(self.step_s)
                if self._dead:
                    raise EngineDied("the engine died")
                if request_id not in self.running:
                    yield FakeOutput(request_id, tuple(range(done)), True, "abort", size)
                    return
                last = done == sampling_params.max_tokens
                yield FakeOutput(request_id, tuple(range(done)), last, "length" if last else None, size)
        finally:
            self.running.pop(request_id, None)

    async def abort(self, request_id: str) -> None:
        """Stop a request at its next step."""
        self.aborted.append(request_id)
        self.running.pop(request_id, None)

    async def ping(self) -> None:
        """Answer between two steps, not while ``stalled`` or ``slow``. Raises EngineDied when the engine is dead.

        A ping during which the engine dies is never answered, as by a real engine.
        """
        if self._dead:
            raise EngineDied("the engine died")
        while self.stalled or self.slow:
            await asyncio.sleep(self.step_s)
            if self._dead:
                await asyncio.get_running_loop().create_future()

    def progress(self) -> Progress:
        """Report a step under way while ``slow``, nothing new while ``stalled``, and ``compiling_s`` for grammars."""
        self._beats += not self.stalled
        if self.slow != bool(self._works % 2):
            self._works += 1
        return Progress(
            engine=id(self),
            beats=self._beats,
            works=self._works,
            compiling_s=self.compiling_s,
            compilations_held_s=self.compilations_held_s,
        )

    async def pause_generation(self, *, mode: str = "abort", clear_cache: bool = True) -> None:
        """Make no step until resumed. Running requests are kept."""
        self.paused = True

    async def resume_generation(self) -> None:
        """Make steps again."""
        self.paused = False

    async def is_paused(self) -> bool:
        """Whether the engine is paused."""
        return self.paused

    async def sleep(self, level: int = 1, mode: str = "abort") -> None:
        """Pause, and from level 1 on sleep."""
        self.paused, self.asleep = True, self.asleep or level >= 1

    async def wake_up(self, tags: list[str] | None = None) -> bool:
        """Wake up and resume, with all tags; with some of them stay asleep."""
        if tags is None:
            self.paused = self.asleep = False
        return not self.asleep

    async def is_sleeping(self) -> bool:
        """Whether the engine is asleep."""
        return self.asleep

    @property
    def _held_up(self) -> bool:
        return self.stalled or self.slow or self.paused or self.asleep

    def die(self) -> None:
        """Fail all running requests, and all later ones."""
        self._dead = True
