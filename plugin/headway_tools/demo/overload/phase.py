"""The overload of the demo: the engine's capacity is measured, then exceeded for a bounded time, then the queue drains.

Requests of the same mix as in the measurement arrive at ``OVERLOAD_RATIO`` times the rate that the full engine can
serve, whatever becomes of them (an open loop): so it is an overload on any machine. The phase ends when each of them
has ended. A line every few seconds says how far it is. The same arrivals are then served by a model of the engine
without Headway, for comparison.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from headway_simulator import Request
from headway_tools.demo.overload.capacity import Measurement
from headway_tools.demo.overload.figures import OverloadFigures, figures
from headway_tools.demo.overload.shares import ClassShare, by_clients
from headway_tools.demo.overload.without import EngineSeen, at_speed_of, without_headway
from headway_tools.demo.server import Servers, counts_when_idle
from headway_tools.demo.traffic import CLASSES, overload
from headway_tools.load.scrape import Counts
from headway_tools.load.sender import Sender
from headway_tools.load.served import COMPLETED, REFUSED, Served

OVERLOAD_RATIO = 1.7
#: The most that these clients can send.
MAX_RATE_PER_S = 100.0
_MIN_RATE_PER_S = 0.5
_PROGRESS_EVERY_S = 5.0
_SETTLE_WITHIN_S = 180.0


@dataclass(frozen=True, slots=True)
class Lengths:
    """The longest time of the measurement of the capacity, and the time for which it is exceeded."""

    measure_within_s: float
    exceed_s: float


@dataclass(frozen=True, slots=True)
class _Over:
    """The moment when the overload is over: its length, the requests completed until then, and the engine."""

    took_s: float
    completed: Mapping[str, int]
    engine: EngineSeen


@dataclass(frozen=True, slots=True)
class Overload:
    """An overload. ``driver_for`` makes clients that report each end to a function."""

    servers: Servers
    driver_for: Callable[[Callable[[Served], None]], Sender]
    say: Callable[[str], None]
    seed: int

    async def run(self, lengths: Lengths, before: Counts) -> OverloadFigures:
        """Measure and exceed the capacity; ``before`` is what the server counted until now."""
        measurement = Measurement(self.servers, self.driver_for, self.say, self.seed)
        capacity = await measurement.run(lengths.measure_within_s, MAX_RATE_PER_S / OVERLOAD_RATIO)
        rate_per_s = min(max(OVERLOAD_RATIO * capacity.requests_per_s, _MIN_RATE_PER_S), MAX_RATE_PER_S)
        self.say(
            f"  overload: {rate_per_s:.1f} requests/s for {lengths.exceed_s:.0f} s; the full engine can serve "
            f"{capacity.requests_per_s:.1f} requests/s, {capacity.measured_per_s:.1f} with the seats of the limit"
        )
        plan = list(overload(self.seed, rate_per_s, lengths.exceed_s, capacity.stretch))
        served: list[Served] = []
        driver = self.driver_for(served.append)
        first = await self.servers.counts()
        over = await self._exceed(driver, plan, lengths.exceed_s, served)
        last = await counts_when_idle(self.servers)
        sent = {name: driver.sent[name] for name in CLASSES}
        shares = (
            by_clients(sent, served, over.completed, over.engine.objectives_s),
            await _without(plan, over, last.since(first)),
        )
        return figures(over.took_s, capacity.requests_per_s, sent, served, (first, last), before, shares)

    async def _exceed(self, driver: Sender, plan: Sequence[Request], length_s: float, served: list[Served]) -> _Over:
        """Send the plan and wait for its answers; returns what was seen when the last of it had been sent."""
        clock = asyncio.get_running_loop().time
        begin_s = clock()
        reporting = asyncio.create_task(self._report(driver, served))
        try:
            await driver.send(plan)
            await asyncio.sleep(begin_s + length_s - clock())
            completed = Counter(request.class_name for request in served if request.ending == COMPLETED)
            over = _Over(clock() - begin_s, completed, await self.servers.engine_seen())
            self.say(f"  the overload is over; {driver.unfinished} of its requests still wait or run")
            await driver.settle(_SETTLE_WITHIN_S)
        finally:
            reporting.cancel()
        return over

    async def _report(self, driver: Sender, served: list[Served]) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_EVERY_S)
            seen = Counter(request.ending for request in served)
            self.say(
                f"  {driver.sent.total()} sent: {seen[COMPLETED]} completed, {seen[REFUSED]} refused, "
                f"{driver.unfinished} wait or run"
            )


async def _without(requests: Sequence[Request], over: _Over, added: Counts) -> list[ClassShare]:
    """The shares of the same requests in vLLM's own queue, computed beside the event loop.

    ``added``: what the server counted until the last had ended.
    """
    engine = over.engine
    if engine.model is not None:
        completed = sum(of_class.outcomes.get(COMPLETED, 0) for of_class in added.classes.values())
        prompt_tokens = completed * sum(request.prompt_tokens for request in requests) / len(requests)
        engine = replace(engine, model=at_speed_of(engine.model, added, prompt_tokens))
    return await asyncio.to_thread(without_headway, requests, CLASSES, over.took_s, engine)
