"""The router as an engine: whose seats a request holds, and what becomes of it when an instance does not serve it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

import pytest
from engines import installed
from routed_engine import REQUEST, Answers, cancelled, engine_of, held, statuses, unseated
from small_presets import small_preset
from virtual_time import on_virtual_time

from headway.admission import loop_time_s
from headway.router import engine as engine_module
from headway.router.adapter import InstancesAdapter
from headway.router.application import open_seats
from headway.router.forwarding.call import NoInstanceError
from headway.router.forwarding.forwarded import CallParams, Headers
from headway_policies.routing import Demand, InstanceSeats


@pytest.mark.parametrize("turns", range(12))
@pytest.mark.parametrize("how", ["cancelled", "aborted", "lost", "probing"])
@on_virtual_time
async def test_no_seat_is_lost_however_a_request_ends(how: str, turns: int) -> None:
    """In whichever turn of the loop; an instance on probation takes the next request."""
    engine = engine_of(Answers(), "a")
    link = engine.pool.links["a"]
    if how == "probing":
        engine.pool.unready(link)
        await asyncio.sleep(2)
        engine.pool.heard(link)
    asked = asyncio.create_task(statuses(engine))
    for _ in range(turns):
        await asyncio.sleep(0)
    if how == "aborted":
        await engine.abort("a")
    elif how == "lost":
        engine.pool.lost(link)
        asked.cancel()
    else:
        asked.cancel()
    with suppress(asyncio.CancelledError):
        await asked
    await asyncio.sleep(0.1)
    assert held(engine) == 0
    for _ in range(5):
        await asyncio.sleep(1)
        engine.pool.heard(link)
    assert link.health.takes(loop_time_s())


@on_virtual_time
async def test_what_an_aborted_request_holds_is_free_though_its_client_takes_nothing() -> None:
    """The request is suspended where it hands a piece on."""
    engine = engine_of(Answers(), "a")
    pieces = engine.generate(REQUEST, CallParams(), "slow", demand=Demand(10))
    assert (await anext(pieces)).status == 200
    assert engine.pool.links["a"].sent == 1
    await engine.abort("slow")
    assert held(engine) == 0
    await pieces.aclose()
    assert held(engine) == 0


@on_virtual_time
async def test_requests_wait_while_all_instances_drain() -> None:
    """Their refusals are not those of the clients, before the heartbeat has noticed as well; then they are served."""
    away = (503, (("x-headway-reason", "draining"),))
    client = Answers(a=away, b=away)
    engine = engine_of(client, "a", "b")
    asked = [asyncio.create_task(statuses(engine, str(at))) for at in range(40)]
    await asyncio.sleep(5)
    assert [one.done() for one in asked] == [False] * 40
    client.refusing.clear()
    for _ in range(10):
        await asyncio.sleep(1)
        for link in engine.pool.links.values():
            engine.pool.heard(link)
    assert [link.sent for link in engine.pool.links.values()] == [1, 1], "each runs its probe"
    await cancelled(*asked)
    assert held(engine) == 0


@pytest.mark.parametrize(("first", "running"), [(b"data: ", 4), (b"", 1)])
@on_virtual_time
async def test_the_first_bytes_of_a_probe_open_all_seats(first: bytes, running: int) -> None:
    """Its end may be far; the head alone says nothing."""
    engine = engine_of(Answers(first), "a")
    link = engine.pool.links["a"]
    engine.pool.unready(link)
    await asyncio.sleep(2)
    engine.pool.heard(link)
    asked = [asyncio.create_task(statuses(engine, str(at))) for at in range(6)]
    await asyncio.sleep(0.1)
    assert (link.sent, engine.pool.open_seats()) == (running, running)
    await cancelled(*asked)
    assert held(engine) == 0


@on_virtual_time
async def test_an_instance_that_fails_gets_no_requests_after_some() -> None:
    """A 500 is tried once more, elsewhere; three in a row, and it is left alone though its health route answers."""
    client = Answers(a=(500, ()))
    engine = engine_of(client, "a", "b")
    asked = [asyncio.create_task(statuses(engine, str(at))) for at in range(12)]
    await asyncio.sleep(1)
    assert client.asked.count("a") <= 6
    assert engine.pool.links["b"].sent == 4
    assert [one.done() for one in asked] == [False] * 12
    await cancelled(*asked)


@on_virtual_time
async def test_a_failure_on_two_instances_is_passed_on() -> None:
    """The failure may be the request's own."""
    client = Answers(a=(500, ()), b=(500, ()), c=(500, ()))
    assert await statuses(engine_of(client, "a", "b", "c")) == [500]
    assert len(client.asked) == 2
    assert await statuses(engine_of(Answers(a=(500, ())), "a")) == [500]


@on_virtual_time
async def test_an_overload_is_passed_on_once_all_have_refused() -> None:
    """429 of each."""
    client = Answers(a=(429, ()), b=(429, ()))
    assert await statuses(engine_of(client, "a", "b")) == [429]
    assert sorted(client.asked) == ["a", "b"]


@pytest.mark.parametrize("status", [401, 403, 404])
@on_virtual_time
async def test_an_instance_with_another_key_or_model_costs_no_request(status: int) -> None:
    """All others are asked, however many of these there are. What none serves may be the client's error; that none lets
    this server in is not."""
    client = Answers(a=(status, ()), b=(status, ()), c=(status, ()))
    client.length_s = 0.1
    assert await statuses(engine_of(client, "a", "b", "c", "d")) == [200]
    alone = engine_of(Answers(a=(status, ()), b=(status, ())), "a", "b")
    expected = [] if status == 401 else [status]
    assert await statuses(alone, raises=status == 401) == expected
    assert held(alone) == 0


@on_virtual_time
async def test_an_instance_that_does_not_let_the_router_in_gets_no_requests_after_some() -> None:
    """The instance answers at once, so it would seem the least loaded one."""
    client = Answers(a=(401, ()))
    client.length_s = 0.5
    engine = engine_of(client, "a", "b")
    for at in range(12):
        for link in engine.pool.links.values():
            engine.pool.heard(link)  # its health route needs no key
        assert await statuses(engine, str(at)) == [200]
    assert client.asked.count("a") <= 6  # three, then probes


@pytest.mark.parametrize("status", [403, 404])
@on_virtual_time
async def test_no_client_takes_an_instance_from_others(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """By requests that it does not serve, for their class, model or origin: it stays as healthy as it was. One that it
    refuses at more length than is kept is answered all the same.
    """
    client = Answers(a=(status, ()))
    client.length_s = 0.1
    engine = engine_of(client, "a")
    for at in range(6):
        assert await statuses(engine, str(at)) == [status]
    with suppress(NoInstanceError):
        await unseated(engine)
    monkeypatch.setattr(engine_module, "_MAX_REFUSAL_BYTES", 5)
    assert await statuses(engine, raises=True) == []
    assert [link.address.name for link in engine.pool.healthy()] == ["a"]


@on_virtual_time
async def test_a_request_that_is_aborted_ends_without_an_error() -> None:
    """Whether it runs or waits; it is counted, and an unknown one is none."""
    engine = engine_of(Answers(), "a")
    running = asyncio.create_task(statuses(engine, "running"))
    await asyncio.sleep(0.1)
    engine.pool.links["a"].known = InstanceSeats(1)
    waiting = asyncio.create_task(statuses(engine, "waiting"))
    await asyncio.sleep(0.1)
    assert engine.pool.waiting == 1
    for name in ("waiting", "running", "unknown"):
        await engine.abort(name)
    assert [await running, await waiting] == [[200], []]
    assert dict(engine.pool.links["a"].ended) == {"aborted": 1}


@pytest.mark.parametrize(
    ("headers", "away"),
    [
        ((("x-headway-reason", "draining"),), True),
        ((("x-headway-reason", "queue_full"),), False),
        ((("x-other", "draining"),), False),
        ((), False),
    ],
)
@on_virtual_time
async def test_which_refusals_mean_that_an_instance_serves_nobody(headers: Headers, away: bool) -> None:
    """Its reason says so: it gets nothing until its next good heartbeat."""
    client = Answers(None, a=(503, headers))
    client.length_s = 0.1
    engine = engine_of(client, "a", "b")
    assert await statuses(engine) == [200]
    assert [link.address.name for link in engine.pool.healthy()] == (["b"] if away else ["a", "b"])


@on_virtual_time
async def test_what_a_draining_instance_finishes_takes_no_seats_of_the_others() -> None:
    """The instance has half of all seats and goes on with them; the other one is filled as before."""
    engine = engine_of(Answers(), "a", "b")
    _, parts = installed(engine, small_preset(seats=8), adapter=InstancesAdapter())
    links = engine.pool.links
    engine.pool.on_change = partial(open_seats, parts.gateway.gate, engine.pool)
    asked = [asyncio.create_task(statuses(engine, str(at))) for at in range(12)]
    await asyncio.sleep(1)
    assert (links["a"].sent, links["b"].sent) == (4, 4)
    engine.pool.unready(links["a"])
    at_b = [name for name, (call, _) in engine._calls.items() if call in links["b"].calls]
    for name in at_b:
        asked[int(name)].cancel()
    await asyncio.sleep(1)
    assert (links["a"].sent, links["b"].sent) == (4, 4), "the four that waited run there now"
    await cancelled(*asked)
    assert held(engine) == 0
    parts.tasks.stop_all()
