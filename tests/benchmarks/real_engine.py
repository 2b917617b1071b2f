"""One real engine in this process, wrapped, and the load that the benchmarks give it.

All arms of a benchmark take turns on the same engine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import headway
from headway.audit import Caller
from headway.errors import Refused
from headway_policies import Preset

TINY = Path(__file__).resolve().parents[2] / ".models" / "tiny"
SEATS = 32
_CALLER = Caller("benchmark")


@dataclass(frozen=True, slots=True)
class Asked:
    """One request to send: its class, the tokens of its prompt and of its answer."""

    class_name: str
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of one request; times in seconds of one clock. ``first_s`` is None where no token came."""

    asked: Asked
    sent_s: float
    ended_s: float
    first_s: float | None = None
    refused: str = ""

    @property
    def completed(self) -> bool:
        """Whether it ran to its end."""
        return not self.refused

    def in_time(self, ttft_s: float) -> bool:
        """Whether it ran to its end, with the first token within so long."""
        return self.completed and self.first_s is not None and self.first_s - self.sent_s <= ttft_s


class RealEngine:
    """The wrapped engine."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._ids = count()

    async def use(self, preset: Preset) -> None:
        """Put a preset in force."""
        control = self._engine.headway
        control.catalogue.include(preset)
        await control.switch(preset.name, expected_revision=None, caller=_CALLER)

    async def send(self, asked: Asked, random: Random) -> Answered:
        """Run one request; its prompt is random, so that no prefix is found in the cache."""
        from vllm import SamplingParams

        params = SamplingParams(max_tokens=asked.output_tokens, ignore_eos=True, temperature=0.0)
        prompt = {"prompt_token_ids": [random.randrange(1000, 40_000) for _ in range(asked.prompt_tokens)]}
        sent_s, first_s = time.monotonic(), None
        answers = self._engine.generate(prompt, params, f"b{next(self._ids)}", priority=asked.class_name)
        try:
            async for _ in answers:
                first_s = first_s or time.monotonic()
        except Refused as error:
            return Answered(asked, sent_s, time.monotonic(), first_s, error.reason.value)
        return Answered(asked, sent_s, time.monotonic(), first_s)


@asynccontextmanager
async def real_engine(model: Path, preset: Preset) -> AsyncIterator[RealEngine]:
    """The engine with a preset in force; it is shut down at the end."""
    from vllm import AsyncEngineArgs
    from vllm.engine.async_llm_engine import AsyncLLMEngine

    args = AsyncEngineArgs(
        model=str(model),
        enforce_eager=True,
        max_model_len=1024,
        max_num_seqs=SEATS,
        scheduling_policy="priority",
        enable_prefix_caching=False,
    )
    engine = headway.wrap(AsyncLLMEngine.from_engine_args(args), preset=preset, warmup=True)
    try:
        yield RealEngine(engine)
    finally:
        engine.shutdown()


Send = Callable[[Asked, Random], Coroutine[Any, Any, Answered]]
Mix = Callable[[Random], Asked]


async def closed_loop(send: Send, mix: Mix, clients: int, length_s: float, lead_s: float) -> list[Answered]:
    """So many clients that each send the next request when the last has ended; what ended within the time.

    The time begins after ``lead_s``: until the first requests have ended, nothing is served at the usual rate.
    """
    begin_s, found = time.monotonic() + lead_s, list[Answered]()
    end_s = begin_s + length_s

    async def client(number: int) -> None:
        random = Random(number)
        while time.monotonic() < end_s:
            found.append(await send(mix(random), random))

    await asyncio.gather(*(client(number) for number in range(clients)))
    return [one for one in found if begin_s <= one.ended_s < end_s]


async def open_loop(send: Send, mix: Mix, rate_per_s: float, length_s: float, seed: int) -> list[Answered]:
    """Poisson arrivals; all their answers."""
    random, tasks = Random(seed), list[asyncio.Task[Answered]]()
    at_s = time.monotonic()
    end_s = at_s + length_s
    while (at_s := at_s + random.expovariate(rate_per_s)) < end_s:
        await asyncio.sleep(max(0.0, at_s - time.monotonic()))
        tasks.append(asyncio.create_task(send(mix(random), random)))
    return list(await asyncio.gather(*tasks))


def named(preset: Preset, name: str, **more: object) -> Preset:
    """A preset under another name, with other parts."""
    return preset.model_copy(update={"name": name, **more})
