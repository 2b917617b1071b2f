"""A serving engine behind a gate, and calls of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from engines import ServingEngine
from small_presets import small_preset

from headway.engine.fake import FakeEngine, FakeParams
from headway.engine.port import PingAnswer, PlainAdapter
from headway.operator.control import Control
from headway.operator.install import install, prepare
from headway.operator.presets import PresetCatalogue


def behind_a_gate(
    seats: int = 2, engine: FakeEngine | None = None, kind: PlainAdapter | None = None, **options: Any
) -> tuple[Any, Control]:
    """A serving engine that makes a token a second, by default one with these options, and its control room."""
    served: Any = engine or ServingEngine(step_s=1.0, **options)
    return served, install(prepare(served, kind or PlainAdapter(), small_preset(seats)), PresetCatalogue())


async def read(engine: Any, request_id: str, tokens: int = 3, n: int = 1, **options: Any) -> int:
    """Call the engine and count the outputs."""
    count = 0
    async for _ in engine.generate("text", FakeParams(tokens, n), request_id, **options):
        count += 1
    return count


async def leave_while_it_runs(reader: asyncio.Task[int]) -> None:
    """Cancel a request as a client does that disconnects."""
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader


async def collect(stream: AsyncGenerator[Any, None]) -> list[Any]:
    """All outputs of a call."""
    return [one async for one in stream]


class CountingKind(PlainAdapter):
    """Counts how often the engine is asked to confirm; with ``late`` its sequences outlive their end for a moment."""

    def __init__(self, *, late: bool = False) -> None:
        self.pings = 0
        self.on_second_ping: Callable[[], None] = lambda: None
        self.late = late

    def ends_late(self, sampling_params: Any) -> bool:
        """As the test wants it."""
        return self.late

    async def ping(self, engine: Any) -> PingAnswer | None:
        """Count it."""
        self.pings += 1
        if self.pings == 2:
            self.on_second_ping()
        return await super().ping(engine)


class Silent(PlainAdapter):
    """An engine whose calls give no output until their end, and that reports their progress."""

    def unstreamed(self, sampling_params: Any) -> bool:
        """Of every call."""
        return True

    def tokens(self, engine: Any, request_id: str) -> int | None:
        """As the engine has noted."""
        return int(engine.made.get(request_id, 0))


class Whole(FakeEngine):
    """Gives one output, its last, and notes how many tokens it has made."""

    def __init__(self) -> None:
        super().__init__(step_s=1.0)
        self.made: dict[str, int] = {}

    async def generate(self, *arguments: Any, **options: Any) -> AsyncGenerator[Any, None]:
        """The last output of the fake's own."""
        output = None
        async for output in super().generate(*arguments, **options):
            self.made[output.request_id] = len(output.tokens)
        if output is not None:
            yield output
