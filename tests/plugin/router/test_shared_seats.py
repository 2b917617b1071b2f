"""Instances that are API servers of one engine: they share its seats, its load and its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from virtual_time import on_virtual_time

from headway.admission import loop_time_s
from headway.router.addresses import Address
from headway.router.call import Call, EngineGoneError, InstanceLostError
from headway.router.engine import InstancesEngine
from headway.router.forwarded import CallParams, Forwarded, Piece
from headway.router.instance import InstanceLink
from headway.router.pool import InstancePool
from headway.router.reading import Reading
from headway_policies import Load
from headway_policies.routing import Demand, LeastLoaded

SEATS = 4
REQUEST = Forwarded("POST", "/v1/completions", ())


def shared_pool(count: int = 2) -> InstancePool:
    """Healthy API servers "0", "1", ... of an engine with four seats."""
    links = [InstanceLink(Address(str(at), f"http://{at}"), SEATS) for at in range(count)]
    pool = InstancePool(links, LeastLoaded(kv=0.0, kv_long=0.0, affinity=0.0), loop_time_s, shared_seats=SEATS)
    for link in links:
        pool.heard(link)
    return pool


@pytest.mark.parametrize("count", [1, 2, 5])
@on_virtual_time
async def test_the_seats_are_those_of_the_engine_however_many_api_servers_live(count: int) -> None:
    """Also when all but one are lost; none are open when there is none."""
    pool = shared_pool(count)
    links = list(pool.links.values())
    for link in links[1:]:
        assert (pool.open_seats(), pool.seats(), pool.most_seats()) == (SEATS, SEATS, SEATS)
        pool.lost(link)
    assert (pool.open_seats(), pool.seats(), pool.most_seats()) == (SEATS, SEATS, SEATS)
    pool.lost(links[0])
    assert (pool.open_seats(), pool.seats(), pool.most_seats()) == (0, 0, SEATS)


@on_virtual_time
async def test_requests_go_to_the_api_server_that_has_the_fewest() -> None:
    """Any of them may have all seats, so the number under way decides alone."""
    pool = shared_pool()
    taken = [await pool.lease(Call(), Demand(100, 50), frozenset()) for _ in range(SEATS)]
    assert sorted(one.link.address.name for one in taken) == ["0", "0", "1", "1"]


@on_virtual_time
async def test_what_one_says_of_the_engine_is_not_counted_twice() -> None:
    """Each reads the figures of the whole engine: nothing of them is load of other clients."""
    pool = shared_pool()
    for _ in range(3):
        await pool.lease(Call(), Demand(100, 50), frozenset())
    for link in pool.links.values():
        pool.read(link, Reading(running=3, waiting=1, kv_use=0.5), link.sent)
    assert pool.load() == Load(3, 1, 0.5)
    assert pool.open_seats() == SEATS


class OneEngine:
    """The engine behind them, which ends when the test says so."""

    def __init__(self) -> None:
        self.gone = False
        self.asked: list[str] = []

    async def wait_for_report(self, name: str) -> None:
        self.asked.append(name)
        await asyncio.sleep(0.5)


class Breaking:
    """A client of instances: the connection to those in ``broken`` breaks, after ``parts`` of the answer."""

    def __init__(self, *broken: str, parts: int = 0) -> None:
        self.broken = broken
        self.parts = parts
        self.headers: list[tuple[tuple[str, str], ...]] = []

    async def exchange(
        self, address: Address, request: Forwarded, call: Call, prompt_tokens: int
    ) -> AsyncGenerator[Piece, None]:
        self.headers.append(request.headers)
        for at in range(self.parts):
            yield Piece(b"part", None if at else 200)
        await call.step(asyncio.sleep(1.0))
        if address.name in self.broken:
            raise InstanceLostError(address.name, sent=True)
        yield Piece(b"yes", None if self.parts else 200, last=True)


def engine_of(client: Breaking, one: OneEngine) -> InstancesEngine:
    """Two API servers of one engine."""
    return InstancesEngine(shared_pool(), client, one)  # type: ignore[arg-type]


async def bodies(engine: InstancesEngine, priority: int = 0) -> bytes:
    """Run one request to its end."""
    pieces = engine.generate(REQUEST, CallParams(), "a", demand=Demand(10), priority=priority)
    return b"".join([piece.body async for piece in pieces])


@on_virtual_time
async def test_an_api_server_that_is_lost_alone_is_replaced_by_another_one() -> None:
    """Once it is known that the engine lives."""
    one = OneEngine()
    engine = engine_of(Breaking("0"), one)
    assert await bodies(engine) == b"yes"
    assert (one.asked, engine.errored) == (["0"], False)


@pytest.mark.parametrize("parts", [0, 1])
@on_virtual_time
async def test_a_request_ends_with_the_engine_and_is_not_tried_elsewhere(parts: int) -> None:
    """Whether its connection breaks, or it is told: what follows is decided where all of its requests are known."""
    one = OneEngine()
    client = Breaking("0", "1", parts=parts)
    engine = engine_of(client, one)
    one.gone = True
    with pytest.raises(EngineGoneError):
        await bodies(engine)
    assert (len(client.headers), engine.errored) == (1, True)
    assert [link.sent for link in engine.pool.links.values()] == [0, 0]


@on_virtual_time
async def test_every_call_ends_when_the_engine_is_gone() -> None:
    """Also one that waits for the answer of an API server that lives on."""
    one = OneEngine()
    engine = engine_of(Breaking(), one)
    asked = asyncio.create_task(bodies(engine))
    await asyncio.sleep(0.5)
    one.gone = True
    engine.engine_gone()
    with pytest.raises(EngineGoneError):
        await asked


class Steps:
    """What the engine reports."""

    def __init__(self) -> None:
        self.steps: list[Load] = []
        self.between: list[Load] = []

    def step(self, load: Load | None, sequences: int, ended: object) -> None:
        assert load is not None
        self.steps.append(load)

    def seen(self, load: Load) -> None:
        self.between.append(load)


@on_virtual_time
async def test_an_engine_that_computes_nothing_reports_no_step() -> None:
    """With requests or without: or a hang would look like work. Its load is known all the same."""
    engine, steps = engine_of(Breaking(), OneEngine()), Steps()
    engine.listen(steps)
    link = engine.pool.links["0"]
    for reading in (Reading(), Reading(tokens=5), Reading(tokens=5)):
        engine.pool.read(link, reading, 0)
        engine.report()
    assert (len(steps.steps), len(steps.between)) == (1, 2)
    lease = await engine.pool.lease(Call(), Demand(10, seats=2), frozenset())
    engine.report()
    engine.pool.give_back(lease)
    engine.report()
    assert [one.running for one in steps.between[2:]] == [2, 0]
    engine.pool.read(link, Reading(tokens=6), 0)
    engine.report()
    assert len(steps.steps) == 2


@on_virtual_time
async def test_the_figures_of_a_step_before_the_last_one_are_no_load() -> None:
    """The engine reports a step to one API server, which may be one that has ended: only what was sent counts."""
    pool = shared_pool()
    for link in pool.links.values():
        pool.read(link, Reading(running=3), 0)
    assert pool.load().running == 0


@on_virtual_time
async def test_the_class_is_the_engines_priority() -> None:
    """The API server has no gate that would know it; an instance of another server is told nothing."""
    client = Breaking()
    await bodies(engine_of(client, OneEngine()), priority=2)
    await bodies(InstancesEngine(shared_pool(), client), priority=2)  # type: ignore[arg-type]
    assert client.headers == [(("x-headway-priority", "2"),), ()]
