"""The only instance of a router, which has started it: its seats, its load, its priority and its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from instance_pools import pool_of
from virtual_time import on_virtual_time

from headway.router.addresses import Address
from headway.router.engine import InstancesEngine
from headway.router.forwarding.call import Call, EngineGoneError, InstanceLostError
from headway.router.forwarding.forwarded import CallParams, Forwarded, Piece
from headway.router.instances.pool import InstancePool
from headway.router.instances.reading import InstanceReading
from headway_policies import Load
from headway_policies.routing import Demand

SEATS = 4
REQUEST = Forwarded("POST", "/v1/completions", ())


def own_pool(*, exclusive: bool = True) -> InstancePool:
    """One healthy instance with four seats."""
    return pool_of("vllm", seats=SEATS, exclusive=exclusive)


@on_virtual_time
async def test_its_seats_are_those_of_the_engine_whatever_its_metrics_say() -> None:
    """The server has no other clients, and reports a step to an API server that may have ended: only what was sent
    there runs there."""
    pool = own_pool()
    (link,) = pool.links.values()
    for _ in range(3):
        await pool.lease(Call(), Demand(100, 50), frozenset())
    pool.read(link, InstanceReading(running=7, waiting=5, kv_use=0.5), link.sent)
    assert (pool.seats(), pool.open_seats(), pool.most_seats(), link.others) == (SEATS, SEATS, SEATS, 0)
    assert pool.load() == Load(3, 5, 0.5)
    pool.lost(link)
    assert (pool.seats(), pool.most_seats()) == (0, SEATS)


class OwnServer:
    """The server, which ends when the test says so."""

    def __init__(self) -> None:
        self.gone = False
        self.asked = 0

    async def wait_for_report(self) -> None:
        self.asked += 1
        await asyncio.sleep(0.5)


class Breaking:
    """A client of instances: so many connections break, after ``parts`` of the answer."""

    def __init__(self, breaks: int = 0, parts: int = 0) -> None:
        self.breaks = breaks
        self.parts = parts
        self.headers: list[tuple[tuple[str, str], ...]] = []

    async def exchange(
        self, address: Address, request: Forwarded, call: Call, prompt_tokens: int
    ) -> AsyncGenerator[Piece, None]:
        self.headers.append(request.headers)
        for at in range(self.parts):
            yield Piece(b"part", None if at else 200)
        await call.step(asyncio.sleep(1.0))
        if len(self.headers) <= self.breaks:
            raise InstanceLostError(address.name, sent=True)
        yield Piece(b"yes", None if self.parts else 200, last=True)


def engine_of(client: Breaking, own: OwnServer) -> InstancesEngine:
    """Before that server."""
    return InstancesEngine(own_pool(), client, own)  # type: ignore[arg-type]


async def bodies(engine: InstancesEngine, priority: int = 0) -> bytes:
    """Run one request to its end."""
    pieces = engine.generate(REQUEST, CallParams(), "a", demand=Demand(10), priority=priority)
    return b"".join([piece.body async for piece in pieces])


@on_virtual_time
async def test_a_connection_that_broke_alone_is_tried_again() -> None:
    """Once it is known that the server lives, and when it is healthy again."""
    own = OwnServer()
    engine = engine_of(Breaking(1), own)
    asked = asyncio.create_task(bodies(engine))
    await asyncio.sleep(2.0)
    assert (asked.done(), own.asked) == (False, 1)
    engine.pool.heard(engine.pool.links["vllm"])
    assert (await asked, engine.errored) == (b"yes", False)


@pytest.mark.parametrize("parts", [0, 1])
@on_virtual_time
async def test_a_request_ends_with_the_engine_and_is_not_tried_elsewhere(parts: int) -> None:
    """Whether it had output or not: what follows is decided where all of its requests are known."""
    own = OwnServer()
    client = Breaking(9, parts=parts)
    engine = engine_of(client, own)
    own.gone = True
    with pytest.raises(EngineGoneError):
        await bodies(engine)
    assert (len(client.headers), engine.errored) == (1, True)
    assert [link.sent for link in engine.pool.links.values()] == [0]


@on_virtual_time
async def test_the_class_is_the_engines_priority() -> None:
    """The server has no gate that would know it; an instance of others is told nothing."""
    client = Breaking()
    await bodies(engine_of(client, OwnServer()), priority=2)
    await bodies(InstancesEngine(own_pool(exclusive=False), client), priority=2)  # type: ignore[arg-type]
    assert client.headers == [(("x-headway-priority", "2"),), ()]
