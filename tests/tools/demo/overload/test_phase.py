"""The overload against a model of an engine: measured, exceeded, drained."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from statistics import fmean
from typing import cast

import pytest
from virtual_time import on_virtual_time

from headway.api import NoAnswerInTimeError
from headway_simulator import EngineModel, Request
from headway_tools.demo.overload.figures import OverloadFigures
from headway_tools.demo.overload.phase import MAX_RATE_PER_S, OVERLOAD_RATIO, Lengths, Overload
from headway_tools.demo.overload.without import EngineSeen
from headway_tools.demo.server import Servers
from headway_tools.demo.summary import PresetSeen
from headway_tools.demo.traffic import CLASSES, OUTPUT_TOKENS, OVERLOAD_WEIGHTS
from headway_tools.load.scrape import ClassCounts, Counts
from headway_tools.load.sender import Sender
from headway_tools.load.served import COMPLETED, Served

SEATS = 4
TOKENS = sum(weight * fmean(OUTPUT_TOKENS[name]) for name, weight in zip(CLASSES, OVERLOAD_WEIGHTS, strict=True))
LENGTHS = Lengths(measure_within_s=60.0, exceed_s=60.0)


class _Engine:
    """Serves ``SEATS`` requests at a time, each for ``service_s`` on the mean; as clients and as metrics.

    ``limit`` is what the server allows of them; it grows by itself to ``most_seats`` while requests wait.
    """

    def __init__(self, service_s: float, most_seats: int = SEATS, objective_s: float = 1.0) -> None:
        self.sent: list[Request] = []
        self._service_s = service_s
        self._limit, self._most_seats, self._running, self._queued = SEATS, most_seats, 0, 0
        self._free = asyncio.Condition()
        self._objective_s = objective_s
        self._counts = {name: [0, 0, 0] for name in CLASSES}  # arrived, open, completed
        self._tokens = 0.0

    async def counts(self) -> Counts:
        classes = {
            name: ClassCounts(arrived, unfinished, 0, {"completed": completed})
            for name, (arrived, unfinished, completed) in self._counts.items()
        }
        return Counts(classes, batch_sum=self._tokens)

    async def preset_seen(self) -> PresetSeen:
        if self._queued:
            self._limit = min(2 * self._limit, self._most_seats)
            async with self._free:
                self._free.notify_all()
        return PresetSeen("balanced", 1, self._limit)

    async def engine_seen(self) -> EngineSeen:
        model = EngineModel(self._service_s / TOKENS, 0.0, 0.0, max_num_seqs=SEATS)
        return EngineSeen(model, dict.fromkeys(CLASSES, self._objective_s))

    def driver_for(self, record: Callable[[Served], None]) -> Sender:
        return Sender(self._complete, record)

    async def _complete(self, request: Request) -> Served:
        self.sent.append(request)
        tokens = request.output_tokens
        clock, counts = asyncio.get_running_loop().time, self._counts[request.class_name]
        counts[0] += 1
        counts[1] += 1
        begin_s = clock()
        self._queued += 1
        async with self._free:
            await self._free.wait_for(lambda: self._running < self._limit)
        self._queued -= 1
        self._running += 1
        waited_s = clock() - begin_s
        await asyncio.sleep(self._service_s * tokens / TOKENS)
        self._tokens += tokens
        self._running -= 1
        async with self._free:
            self._free.notify_all()
        counts[1] -= 1
        counts[2] += 1
        return Served(request.class_name, COMPLETED, waited_s, tokens)


async def played(engine: _Engine, said: list[str], lengths: Lengths = LENGTHS) -> OverloadFigures:
    """One overload of an engine."""
    overload = Overload(cast(Servers, engine), engine.driver_for, said.append, seed=3)
    return await overload.run(lengths, Counts({}))


@on_virtual_time
async def test_the_engine_is_offered_more_than_it_has_shown_and_every_request_ends() -> None:
    """Two requests a second are measured; more by the ratio are offered, within four deviations of a Poisson count."""
    found = await played(_Engine(SEATS / 2.0), said := [])
    assert found.capacity_per_s == pytest.approx(2.0, rel=0.15)
    expected = OVERLOAD_RATIO * found.capacity_per_s * LENGTHS.exceed_s
    assert abs(found.sent - expected) < 4 * expected**0.5 + len(CLASSES)
    assert [one.class_name for one in found.classes] == list(CLASSES)
    assert all(one.sent == one.ended == one.arrived == one.completed > 0 for one in found.classes)
    assert found.unanswered == 0
    assert said[0].startswith("  measuring what the engine can serve")
    assert "requests/s for 60 s; the full engine can serve" in said[1]
    assert any("wait or run" in line and " sent: " in line for line in said[2:]), "no progress was shown"


@on_virtual_time
async def test_a_limit_that_grows_is_measured_where_it_ends() -> None:
    """An engine that takes four times the seats at first serves four times as much."""
    found = await played(_Engine(SEATS / 2.0, most_seats=4 * SEATS), [])
    assert found.capacity_per_s == pytest.approx(8.0, rel=0.15)


@on_virtual_time
async def test_the_shares_stand_beside_those_of_the_same_arrivals_without_headway() -> None:
    """The engine is first come, first served: both are alike, and most of either is late."""
    found = await played(_Engine(SEATS / 2.0), [])
    for with_it, without in zip(found.shares, found.without, strict=True):
        assert with_it.sent == with_it.served == without.sent == without.served
        assert with_it.meanwhile < 0.8 * with_it.sent
        assert without.meanwhile < 0.8 * without.sent
        assert with_it.in_time < 0.3 * with_it.sent
        assert without.in_time < 0.3 * without.sent


@on_virtual_time
async def test_a_fast_engine_is_asked_for_longer_answers() -> None:
    """Forty times what the clients can send: fewer and longer requests are still more than it can serve."""
    engine = _Engine(SEATS / (4 * MAX_RATE_PER_S))
    found = await played(engine, said := [], Lengths(measure_within_s=5.0, exceed_s=10.0))
    assert any("longer answers" in line for line in said)
    assert found.offered_per_s < 1.1 * MAX_RATE_PER_S
    assert found.offered_per_s > 1.3 * found.capacity_per_s
    assert fmean(one.output_tokens for one in engine.sent[-found.sent :]) > 2 * TOKENS


@on_virtual_time
async def test_an_admin_call_that_fails_is_that_error() -> None:
    """No group of errors, which nothing above could name."""

    class Busy(_Engine):
        async def preset_seen(self) -> PresetSeen:
            if self.sent:
                raise NoAnswerInTimeError("no answer", "http://127.0.0.1:8000")
            return await super().preset_seen()

    with pytest.raises(NoAnswerInTimeError):
        await played(Busy(SEATS / 2.0), [])


@on_virtual_time
async def test_an_overload_that_is_cancelled_reports_no_more() -> None:
    """Ctrl-C may come at any time: no task goes on."""
    said: list[str] = []
    task = asyncio.create_task(played(_Engine(SEATS / 2.0), said))
    await asyncio.sleep(30)
    assert len(said) > 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    before = len(said)
    await asyncio.sleep(60)
    assert len(said) == before
    assert task.cancelled()
