"""The capacity of the full engine: measured as far as the limit goes, and by the measured step time beyond it.

More clients than there are seats, each with one request at a time, keep all seats taken. A limit that follows the
engine grows while requests wait, so more clients join as it grows, and what counts is measured from then on. Where the
limit keeps the time between tokens short, the engine could serve more with longer ones: all that it could serve with
all of its own sequences follows from the step time (``ceiling``). Only more than that is an overload without Headway
too.

Clients have a bound of their own; an engine that serves more than they can exceed is asked for longer answers.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headway_simulator import Request, Slo, ceiling
from headway_tools.demo.overload.without import EngineSeen, at_speed_of
from headway_tools.demo.server import Servers
from headway_tools.demo.traffic import mix
from headway_tools.load.scrape import Counts
from headway_tools.load.sender import Sender
from headway_tools.load.served import COMPLETED, Served

MAX_CLIENTS = 512
#: Answers of at most so many times the usual length stay within the demo's longest sequence.
MAX_STRETCH = 24.0
_TURNOVERS = 2  # it ends when so many requests have been completed for each client
_LOOK_EVERY_S = 1.0
_USUAL = 500  # requests whose mean lengths are those of the mix


@dataclass(frozen=True, slots=True)
class Capacity:
    """Requests per second of the full engine, where answers are ``stretch`` times as long as in the light traffic;
    ``measured_per_s`` is what was completed with the seats of the limit.
    """

    requests_per_s: float
    measured_per_s: float
    stretch: float


@dataclass(slots=True)
class _Span:
    """The requests seen since ``begin_s``."""

    begin_s: float
    counts: Counts
    completed: int = 0


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measurement of a capacity. ``driver_for`` makes clients that report each end to a function."""

    servers: Servers
    driver_for: Callable[[Callable[[Served], None]], Sender]
    say: Callable[[str], None]
    seed: int

    async def run(self, within_s: float, most_per_s: float) -> Capacity:
        """Measure for at most ``within_s``, again with longer answers while it is more than ``most_per_s``."""
        stretch = 1.0
        while True:
            try:
                measured_per_s, full_per_s = await self._measure(stretch, within_s)
            except ExceptionGroup as several:
                raise several.exceptions[0] from None
            found_per_s = max(measured_per_s, full_per_s)
            if found_per_s <= most_per_s or stretch >= MAX_STRETCH:
                return Capacity(found_per_s, measured_per_s, stretch)
            stretch = min(stretch * max(2.0, found_per_s / most_per_s), MAX_STRETCH)
            self.say(
                f"  {found_per_s:.0f} requests/s are more than clients can exceed: longer answers, {stretch:.0f} times"
            )

    async def _measure(self, stretch: float, within_s: float) -> tuple[float, float]:
        """Requests per second: as completed, and as the step time says of the engine with all its sequences."""
        self.say(f"  measuring what the engine can serve: more clients than seats, at most {within_s:.0f} s")
        clock, enough, served = asyncio.get_running_loop().time, asyncio.Event(), list[Served]()
        driver, clients, until_s = self.driver_for(served.append), 0, clock() + within_s
        requests = mix(self.seed, stretch)
        span = _Span(clock(), await self.servers.counts())
        async with asyncio.TaskGroup() as group:
            while clock() < until_s and (not clients or _completed(served) - span.completed < _TURNOVERS * clients):
                limit = (await self.servers.preset_seen()).limit
                if limit >= clients and clients < MAX_CLIENTS:
                    more = min(limit + limit // 4 + 2, MAX_CLIENTS) - clients
                    clients += more
                    group.create_task(driver.keep_busy(requests, more, enough))
                    span = _Span(clock(), await self.servers.counts(), _completed(served))
                await asyncio.sleep(_LOOK_EVERY_S)
            late, span_s = await self.servers.counts(), clock() - span.begin_s
            engine = await self.servers.engine_seen()
            enough.set()
        added, completed = late.since(span.counts), _completed(served) - span.completed
        usual = list(itertools.islice(mix(self.seed, stretch), _USUAL))
        return capacity_per_s(added, span_s, served, completed), full_per_s(engine, usual, added, completed)


def capacity_per_s(added: Counts, span_s: float, served: Sequence[Served], completed: int) -> float:
    """Requests per second of a full engine: its sequences per second of ``span_s``, by the mean length of an answer.

    A sequence gains a token in each step. ``served`` is everything that ended; where the server shows no steps, the
    number ``completed`` in the span counts.
    """
    tokens = [request.output_tokens for request in served if request.ending == COMPLETED and request.output_tokens]
    if added.batch_sum > 0 and tokens:
        return added.batch_sum / span_s / (sum(tokens) / len(tokens))
    return completed / span_s


def full_per_s(engine: EngineSeen, usual: Sequence[Request], added: Counts, completed: int) -> float:
    """Requests per second of the engine with all its sequences, for requests like these; 0 where it is not measured.

    Its speed is that at which ``added`` was served, with ``completed`` requests.
    """
    if engine.model is None:
        return 0.0
    prompt_tokens, output_tokens = (
        sum(lengths) / len(usual)
        for lengths in zip(*((request.prompt_tokens, request.output_tokens) for request in usual), strict=True)
    )
    model = at_speed_of(engine.model, added, completed * prompt_tokens)
    return ceiling(model, prompt_tokens, output_tokens, Slo(inter_token_s=math.inf)).requests_per_s


def _completed(served: Sequence[Served]) -> int:
    return sum(request.ending == COMPLETED for request in served)
