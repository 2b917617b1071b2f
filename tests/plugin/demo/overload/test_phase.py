"""The overload against a model of an engine: measured, exceeded, drained."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest
from virtual_time import on_virtual_time

from headway.demo.drive import COMPLETED, Driver, Served
from headway.demo.overload.figures import OverloadFigures
from headway.demo.overload.phase import MAX_RATE_PER_S, OVERLOAD_RATIO, Lengths, Overload
from headway.demo.server import Servers
from headway.demo.traffic import CLASSES, Arrival
from headway.load.scrape import ClassCounts, Counts

SEATS = 4
TOKENS = 10
LENGTHS = Lengths(measure_within_s=30.0, exceed_s=60.0)


class _Engine:
    """Serves ``SEATS`` requests at a time, each for ``service_s``; as clients and as metrics."""

    def __init__(self, service_s: float) -> None:
        self._service_s = service_s
        self._seats = asyncio.Semaphore(SEATS)
        self._counts = {name: [0, 0, 0] for name in CLASSES}  # arrived, open, completed
        self._tokens = 0

    async def counts(self) -> Counts:
        classes = {
            name: ClassCounts(arrived, unfinished, 0, {"completed": completed})
            for name, (arrived, unfinished, completed) in self._counts.items()
        }
        return Counts(classes, batch_sum=self._tokens)

    def driver_for(self, record: Callable[[Served], None]) -> Driver:
        driver = Driver("http://127.0.0.1:9", "m", record)
        driver._stream = self._stream  # type: ignore[method-assign] # the engine of this test, in place of HTTP
        return driver

    async def _stream(self, arrival: Arrival) -> Served:
        counts = self._counts[arrival.class_name]
        counts[0] += 1
        counts[1] += 1
        async with self._seats:
            for _ in range(TOKENS):
                await asyncio.sleep(self._service_s / TOKENS)
                self._tokens += 1
        counts[1] -= 1
        counts[2] += 1
        return Served(arrival.class_name, COMPLETED, 0.0, TOKENS)


async def played(service_s: float, said: list[str], lengths: Lengths = LENGTHS) -> OverloadFigures:
    """One overload of an engine."""
    engine = _Engine(service_s)
    overload = Overload(cast(Servers, engine), engine.driver_for, said.append, seed=3)
    return await overload.run(lengths, SEATS, Counts({}))


@on_virtual_time
async def test_the_engine_is_offered_more_than_it_has_shown_and_every_request_ends() -> None:
    """Two requests a second are measured; half more are offered, within four deviations of a Poisson count."""
    found = await played(SEATS / 2.0, said := [])
    assert found.capacity_per_s == pytest.approx(2.0, rel=0.1)
    expected = SEATS + OVERLOAD_RATIO * found.capacity_per_s * LENGTHS.exceed_s
    assert abs(found.sent - expected) < 4 * expected**0.5 + len(CLASSES)
    assert [one.class_name for one in found.classes] == list(CLASSES)
    assert all(one.sent == one.ended == one.arrived == one.completed > 0 for one in found.classes)
    assert found.unanswered == 0
    assert said[0].startswith("  measuring what the engine can serve: 4 clients")
    assert said[1].startswith(
        "  overload: 4 requests at once and 3.0 requests/s for 60 s; the full engine completed 2.0"
    )
    assert any("wait or run" in line and " sent: " in line for line in said[2:]), "no progress was shown"


@on_virtual_time
async def test_what_the_clients_can_offer_is_bounded() -> None:
    """An engine of 400 requests a second is offered what one process can send."""
    found = await played(SEATS / 400.0, [], Lengths(measure_within_s=3.0, exceed_s=10.0))
    expected = SEATS + MAX_RATE_PER_S * 10.0
    assert found.capacity_per_s > MAX_RATE_PER_S
    assert abs(found.sent - expected) < 4 * expected**0.5 + len(CLASSES)


@on_virtual_time
async def test_an_overload_that_is_cancelled_reports_no_more() -> None:
    """Ctrl-C may come at any time: no task goes on."""
    said: list[str] = []
    task = asyncio.create_task(played(SEATS / 2.0, said))
    await asyncio.sleep(30)
    assert len(said) > 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    before = len(said)
    await asyncio.sleep(60)
    assert len(said) == before
    assert task.cancelled()
