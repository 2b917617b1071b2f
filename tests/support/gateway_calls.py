"""A serving engine behind a gate, and calls of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from engines import ServingEngine
from small_presets import small_preset

from headway.engine.fake import FakeEngine, FakeParams
from headway.engine.port import PlainAdapter
from headway.operator.control import Control
from headway.operator.install import install, prepare
from headway.operator.presets import PresetCatalogue


def behind_a_gate(
    seats: int = 2, engine: FakeEngine | None = None, kind: PlainAdapter | None = None
) -> tuple[Any, Control]:
    """A serving engine that makes a token a second, and its control room."""
    served: Any = engine or ServingEngine(step_s=1.0)
    return served, install(prepare(served, kind or PlainAdapter(), small_preset(seats)), PresetCatalogue())


async def read(engine: Any, request_id: str, tokens: int = 3, n: int = 1, **options: Any) -> int:
    """Call the engine and count the outputs."""
    count = 0
    async for _ in engine.generate("text", FakeParams(tokens, n), request_id, **options):
        count += 1
    return count


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
