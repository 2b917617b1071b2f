"""The overload of the demo: the engine's capacity is measured, then exceeded for a bounded time, then the queue drains.

First as many clients as there are seats keep the engine full (a closed loop, which needs no queue). Then requests of
the same mix take all seats at once, and more arrive at ``OVERLOAD_RATIO`` times the rate that the full engine has
completed, whatever becomes of them (an open loop). It ends when each of them has ended. One line every few seconds says
how far it is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from headway.demo.drive import COMPLETED, REFUSED, Driver, Served
from headway.demo.overload.figures import OverloadFigures, capacity_per_s, figures
from headway.demo.server import Servers
from headway.demo.traffic import CLASSES, mix, overload
from headway.load.scrape import Counts

OVERLOAD_RATIO = 1.5
#: What these clients can send; a fast GPU with a small model can complete more.
MAX_RATE_PER_S = 100.0
_MIN_RATE_PER_S = 0.5
_TURNOVERS = 2  # the measurement ends when so many requests have been completed for each seat
_PROGRESS_EVERY_S = 5.0
_SETTLE_WITHIN_S = 180.0
_IDLE_WITHIN_S = 5.0
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long the capacity is measured at most, and how long it is exceeded."""

    measure_within_s: float
    exceed_s: float


class Overload:
    """One overload. ``driver_for`` makes clients that report each end to a function."""

    def __init__(
        self,
        servers: Servers,
        driver_for: Callable[[Callable[[Served], None]], Driver],
        say: Callable[[str], None],
        seed: int,
    ) -> None:
        self._servers = servers
        self._driver_for = driver_for
        self._say = say
        self._seed = seed

    async def run(self, lengths: Lengths, seats: int, before: Counts) -> OverloadFigures:
        """Measure and exceed the capacity of ``seats``; ``before`` is what the server counted until now."""
        capacity = await self._measure(lengths.measure_within_s, seats)
        rate_per_s = min(max(OVERLOAD_RATIO * capacity, _MIN_RATE_PER_S), MAX_RATE_PER_S)
        self._say(
            f"  overload: {seats} requests at once and {rate_per_s:.1f} requests/s for {lengths.exceed_s:.0f} s; "
            f"the full engine completed {capacity:.1f} requests/s"
        )
        clock = asyncio.get_running_loop().time
        served: list[Served] = []
        driver = self._driver_for(served.append)
        first = await self._servers.counts()
        begin_s = clock()
        reporting = asyncio.create_task(self._report(driver, served))
        try:
            await driver.send(overload(self._seed, rate_per_s, lengths.exceed_s, seats))
            await asyncio.sleep(begin_s + lengths.exceed_s - clock())
            took_s = clock() - begin_s
            self._say(f"  the overload is over; {driver.unfinished} of its requests still wait or run")
            await driver.settle(_SETTLE_WITHIN_S)
        finally:
            reporting.cancel()
        last = await self._idle()
        sent = {name: driver.sent[name] for name in CLASSES}
        return figures(took_s, capacity, sent, served, (first, last), before)

    async def _measure(self, within_s: float, seats: int) -> float:
        self._say(f"  measuring what the engine can serve: {seats} clients in a closed loop, at most {within_s:.0f} s")
        clock = asyncio.get_running_loop().time
        served: list[Served] = []
        enough = asyncio.Event()

        def record(one: Served) -> None:
            served.append(one)
            if sum(one.ending == COMPLETED for one in served) >= _TURNOVERS * seats:
                enough.set()

        driver = self._driver_for(record)
        early, begin_s = await self._servers.counts(), clock()
        filling = asyncio.create_task(driver.keep_busy(mix(self._seed), seats, enough))
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(enough.wait(), within_s)
            enough.set()
            late, span_s = await self._servers.counts(), clock() - begin_s
            await filling
        finally:
            filling.cancel()
        return capacity_per_s(late.since(early), span_s, served)

    async def _report(self, driver: Driver, served: list[Served]) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_EVERY_S)
            seen = Counter(one.ending for one in served)
            self._say(
                f"  {driver.sent.total()} sent: {seen[COMPLETED]} completed, {seen[REFUSED]} refused, "
                f"{driver.unfinished} wait or run"
            )

    async def _idle(self) -> Counts:
        """The server's counts once nothing waits or runs; whatever they are when that takes too long."""
        clock = asyncio.get_running_loop().time
        until_s = clock() + _IDLE_WITHIN_S
        counts = await self._servers.counts()
        while counts.open and clock() < until_s:
            await asyncio.sleep(_POLL_S)
            counts = await self._servers.counts()
        return counts
