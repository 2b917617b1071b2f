"""The pool: which instance takes a request, and the order of those that wait for one."""

from __future__ import annotations

import asyncio

import pytest
from virtual_time import on_virtual_time

from headway.admission import loop_time_s
from headway.router.addresses import Address
from headway.router.forwarding.call import AbortedError, Call, InstanceLostError
from headway.router.instances.instance import InstanceLink, Lease
from headway.router.instances.pool import AllTriedError, InstancePool
from headway.router.instances.reading import InstanceReading
from headway_policies.fallback import Verdict
from headway_policies.routing import Demand, LeastLoaded

ONE = Demand(100, 50)


def pool_of(*seats: int, heard: bool = True) -> InstancePool:
    """Healthy instances "0", "1", ... with that many seats."""
    links = [InstanceLink(Address(str(at), f"http://{at}"), number) for at, number in enumerate(seats)]
    pool = InstancePool(links, LeastLoaded(), loop_time_s)
    for link in links if heard else ():
        pool.heard(link)
    return pool


async def lease(pool: InstancePool, *without: str, demand: Demand = ONE) -> Lease:
    """One lease."""
    return await pool.lease(Call(), demand, frozenset(without))


@on_virtual_time
async def test_no_instance_gets_more_than_its_seats() -> None:
    """The next request waits, and gets the first seat that is free."""
    pool = pool_of(2, 1)
    taken = [await lease(pool) for _ in range(3)]
    assert sorted(one.link.address.name for one in taken) == ["0", "0", "1"]
    waiting = asyncio.create_task(lease(pool))
    await asyncio.sleep(0.1)
    assert (waiting.done(), pool.waiting) == (False, 1)
    pool.release(taken[0], Verdict.SUCCESS, "answered")
    assert (await waiting).link is taken[0].link
    assert pool.waiting == 0


@on_virtual_time
async def test_those_that_wait_are_served_in_their_order() -> None:
    """One that may not go to the free instance does not hold up the next."""
    pool = pool_of(1, 1)
    taken = {one.link.address.name: one for one in [await lease(pool), await lease(pool)]}
    order: list[str] = []

    async def wait(name: str, *without: str) -> None:
        await lease(pool, *without)
        order.append(name)

    tasks = [asyncio.create_task(wait("a", "0")), asyncio.create_task(wait("b")), asyncio.create_task(wait("c"))]
    await asyncio.sleep(0.1)
    pool.release(taken["0"], Verdict.SUCCESS, "answered")
    await asyncio.sleep(0.1)
    pool.release(taken["1"], Verdict.SUCCESS, "answered")
    await asyncio.sleep(0.1)
    assert order == ["b", "a"]
    tasks[2].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert pool.waiting == 0


@on_virtual_time
async def test_a_lease_that_comes_as_its_request_is_cancelled_is_given_back() -> None:
    """No seat is lost."""
    pool = pool_of(1)
    first = await lease(pool)
    waiting = asyncio.create_task(lease(pool))
    await asyncio.sleep(0.1)
    pool.release(first, Verdict.SUCCESS, "answered")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert pool.links["0"].sent == 0
    assert (await lease(pool)).seats == 1


@on_virtual_time
async def test_all_tried_is_said_at_once_and_while_one_waits() -> None:
    """Where every healthy instance is excluded; not while none is healthy."""
    pool = pool_of(1, 1)
    with pytest.raises(AllTriedError):
        await lease(pool, "0", "1")
    taken = await lease(pool, "0")
    waiting = asyncio.create_task(lease(pool, "0"))
    await asyncio.sleep(0.1)
    pool.unready(pool.links["1"])
    with pytest.raises(AllTriedError):
        await waiting
    pool.release(taken, Verdict.FAILURE, "lost")
    pool.unready(pool.links["0"])
    waiting = asyncio.create_task(lease(pool, "0"))
    await asyncio.sleep(5)
    assert not waiting.done()
    pool.heard(pool.links["1"])
    assert (await waiting).link.address.name == "1"


@on_virtual_time
async def test_a_wide_request_goes_where_it_fits() -> None:
    """Whole, to the instance with the room."""
    pool = pool_of(2, 6)
    found = await lease(pool, demand=Demand(100, 50, seats=4))
    assert (found.link.address.name, found.link.sent) == ("1", 4)


@on_virtual_time
async def test_a_prefix_goes_where_it_went_before() -> None:
    """Of instances that are equally loaded."""
    pool = pool_of(4, 4)
    prefix = tuple(range(8))
    first = await lease(pool)
    second = await pool.lease(Call(), Demand(2000, 1500, prefix), frozenset())
    assert second.link is not first.link
    for one in (first, second):
        pool.release(one, Verdict.SUCCESS, "answered")
    again = await pool.lease(Call(), Demand(2000, 1500, prefix), frozenset())
    assert again.link is second.link


@on_virtual_time
async def test_any_healthy_waits_for_one() -> None:
    """A ping of the router stands for this wait."""
    pool = pool_of(1, heard=False)
    waiting = asyncio.create_task(pool.any_healthy())
    await asyncio.sleep(100)
    assert not waiting.done()
    pool.heard(pool.links["0"])
    await waiting


@on_virtual_time
async def test_an_aborted_call_stays_aborted() -> None:
    """Also where its instance is lost at the same time."""
    call = Call()
    call.stop(AbortedError())
    call.stop(InstanceLostError("a", sent=True))
    call.again()

    async def nothing() -> None:
        raise AssertionError("it must not run")

    with pytest.raises(AbortedError):
        await call.step(nothing())


@on_virtual_time
async def test_new_tokens_in_two_readings_end_a_probation() -> None:
    """The probe may be a long answer that comes as a whole; one reading may show what was computed before."""
    pool = pool_of(8)
    link = pool.links["0"]
    pool.unready(link)
    await asyncio.sleep(2)
    pool.heard(link)
    await lease(pool)
    opened = []
    for tokens in (10.0, 10.0, 20.0):
        pool.read(link, InstanceReading(limit=8, running=1, tokens=tokens), 1)
        opened.append(pool.open_seats())
    assert opened == [1, 1, 8]


@on_virtual_time
async def test_open_seats_are_those_that_requests_may_fill() -> None:
    """Without those of other clients; of an instance on probation one more than is filled, and of one that is away
    none."""
    pool = pool_of(8, 8, 8)
    pool.read(pool.links["0"], InstanceReading(limit=8, running=5), 0)
    assert pool.open_seats() == 3 + 8 + 8
    pool.unready(pool.links["1"])
    assert pool.open_seats() == 3 + 8
    await asyncio.sleep(2)
    for link in pool.links.values():
        pool.heard(link)
    assert pool.open_seats() == 3 + 1 + 8
    assert (len(list(pool.healthy())), pool.working()) == (3, 2)
    assert pool.presence() == (2 / 3, 1), "the probe of the one on probation"
    pool.read(pool.links["2"], InstanceReading(limit=8, running=9), 0)
    assert pool.open_seats() == 3 + 1


@on_virtual_time
async def test_what_an_instance_finishes_takes_no_seats_of_the_others() -> None:
    """The instance is not ready, or leaves: the desk still counts its requests, so their seats are counted, too."""
    pool = pool_of(4, 4)
    taken = [await lease(pool) for _ in range(4)]
    pool.unready(pool.links["0"])
    assert (pool.open_seats(), pool.presence()) == (2 + 4, (0.5, 2))
    pool.leave(pool.links["1"])
    assert (pool.open_seats(), pool.presence()) == (2 + 2, (0.0, 4))
    for one in taken:
        pool.release(one, Verdict.SUCCESS, "answered")
    assert pool.open_seats() == 0


@on_virtual_time
async def test_one_that_leaves_gets_nothing_and_is_forgotten_when_it_is_idle() -> None:
    """Its requests go on; what comes back before is as it was."""
    pool = pool_of(2)
    (link,) = pool.links.values()
    first = await lease(pool)
    pool.leave(link)
    assert (list(pool.healthy()), list(pool.links), first.call in link.calls) == ([], ["0"], True)
    waiting = asyncio.create_task(lease(pool))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    pool.join(InstanceLink(Address("0", "http://0"), 2))
    assert (await waiting).link is link
    pool.leave(link)
    for one in list(link.leases):
        pool.release(one, Verdict.SUCCESS, "answered")
    assert pool.most_seats() == 2
    pool.leave(link)
    assert not pool.links


@on_virtual_time
async def test_what_ended_during_a_scrape_is_nobody_elses() -> None:
    """The scrape counts requests of this router that are over when it is read."""
    pool = pool_of(8)
    pool.read(pool.links["0"], InstanceReading(limit=8, running=6), sent_before=6)
    assert pool.links["0"].others == 0


@on_virtual_time
async def test_a_call_that_is_stopped_lets_go_only_between_two_steps() -> None:
    """In a step what it holds is given back where the step ends; a result that comes too late is undone."""
    call, given = Call(), list[str]()
    call.let_go.append(lambda: given.append("let go"))

    async def slow() -> str:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
        return "late"

    step = asyncio.create_task(call.step(slow(), given.append))
    await asyncio.sleep(0.1)
    call.stop(InstanceLostError("a", sent=True))
    with pytest.raises(InstanceLostError, match="instance a was lost"):
        await step
    await asyncio.sleep(2)
    assert given == ["late"]
    call.again()
    assert await call.step(slow()) == "late"
    call.stop(AbortedError())
    assert given == ["late", "let go"]


@on_virtual_time
async def test_a_step_that_fails_or_is_cancelled_is_not_undone() -> None:
    """There is no result."""
    undone: list[None] = []

    async def fails() -> None:
        try:
            await asyncio.sleep(1)
        finally:
            raise OSError

    for why in (InstanceLostError("a", sent=True), None):
        call = Call()
        step = asyncio.create_task(call.step(fails(), undone.append))
        await asyncio.sleep(0.1)
        if why is not None:
            call.stop(why)
        else:
            step.cancel()
        with pytest.raises((InstanceLostError, asyncio.CancelledError)):
            await step
        await asyncio.sleep(2)
    assert undone == []
