"""Requests that take no seat: they go on elsewhere where their instance is lost."""

from __future__ import annotations

import asyncio

import pytest
from routed_engine import Answers, engine_of, unseated
from virtual_time import on_virtual_time

from headway.router.forwarding.call import InstanceLostError, NoInstanceError


@on_virtual_time
async def test_a_request_without_a_seat_goes_on_where_its_instance_is_lost() -> None:
    """The request has none of the pool's leases, and is stopped and tried elsewhere as those that have one."""
    client = Answers(None)
    engine = engine_of(client, "a", "b")
    silent = asyncio.create_task(unseated(engine))
    await asyncio.sleep(0.1)
    engine.pool.lost(engine.pool.links["a"])
    await asyncio.sleep(0.1)
    assert client.asked == ["a", "b"]
    assert not engine.pool.links["a"].calls
    await asyncio.sleep(3600)
    assert await silent == b"yes"


@on_virtual_time
async def test_a_request_without_a_seat_is_not_tried_a_third_time() -> None:
    """Two instances that were lost with it may have been lost by it; one whose output has begun is not tried again."""
    client = Answers(None)
    client.broken = {"a", "b", "c"}
    engine = engine_of(client, "a", "b", "c")
    with pytest.raises(InstanceLostError):
        await unseated(engine)
    assert client.asked == ["a", "b"]
    client = Answers(b"data: ")
    client.broken = {"a"}
    with pytest.raises(InstanceLostError):
        await unseated(engine_of(client, "a", "b"))
    assert client.asked == ["a"]


@on_virtual_time
async def test_a_request_without_a_seat_is_answered_by_one_that_lets_the_router_in() -> None:
    """However soon the other one answers; where none does, none is there for the client."""
    client = Answers(None, a=(401, ()))
    client.length_s = 0.1
    engine = engine_of(client, "a", "b")
    assert await unseated(engine) == b"yes"
    assert client.asked == ["a", "b"]
    assert [link.address.name for link in engine.pool.healthy()] == ["a", "b"], "its other routes may need no key"
    with pytest.raises(NoInstanceError):
        await unseated(engine_of(Answers(a=(403, ())), "a"))


@on_virtual_time
async def test_a_request_without_a_seat_does_not_wait_for_an_instance() -> None:
    """None is healthy: no instance was asked, and none was lost."""
    engine = engine_of(Answers(), "a")
    engine.pool.unready(engine.pool.links["a"])
    with pytest.raises(NoInstanceError):
        await unseated(engine)


@on_virtual_time
async def test_an_instance_that_takes_no_connection_is_none() -> None:
    """The instance has not seen the request: there is no instance, and none that was lost with it."""
    client = Answers(None)
    client.broken, client.sent = {"a"}, False
    with pytest.raises(NoInstanceError):
        await unseated(engine_of(client, "a"))
    assert client.asked == ["a"]
