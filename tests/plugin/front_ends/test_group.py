"""The child process of a group, as a stand-in: its messages, its end, and another one in its place."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest
import stand_in_group

from headway.errors import NoEngineError
from headway.front_ends.engine import GroupAdapter, GroupReplacer, addresses_of, engine_of, wait_until_up
from headway.front_ends.group import ArgumentsRefusedError, Group
from headway.router.exchange import InstanceClient
from headway_policies import Hold

STAND_IN = (sys.executable, str(Path(stand_in_group.__file__)))
KEY = "k" * 32
Start = Callable[..., Group]


@pytest.fixture
async def group_of() -> AsyncIterator[Start]:
    """Makes groups, and ends them."""
    made: list[Group] = []

    def make(*words: str, count: int = 2) -> Group:
        made.append(Group(words, count, KEY, STAND_IN))
        return made[-1]

    yield make
    for one in made:
        await one.end()


@pytest.fixture
async def client() -> AsyncIterator[InstanceClient]:
    """With the key of the group."""
    one = InstanceClient(KEY)
    yield one
    await one.close()


async def until(holds: Callable[[], bool]) -> None:
    """Poll until it holds."""
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.02)


async def test_it_says_where_its_api_servers_listen_and_they_say_what_their_engine_is(
    group_of: Start, client: InstanceClient
) -> None:
    """The seats are those of the engine, for all of them together."""
    group = group_of()
    assert group.gone
    said = await group.start()
    assert (len(said["ports"]), said["front_end"], group.gone) == (2, "1", False)
    addresses = addresses_of(said)
    assert [one.name for one in addresses] == ["api-server-0", "api-server-1"]
    facts = await wait_until_up(group, client, addresses)
    assert (facts.seats, facts.device, facts.settings.max_model_len) == (8, "cpu", 2048)
    assert engine_of(group, client, addresses, facts).max_num_seqs == 8


async def test_an_api_server_passes_pings_on(group_of: Start, client: InstanceClient) -> None:
    """With what keeps the engine from running; without a healthy one nobody can be asked."""
    group = group_of()
    addresses = addresses_of(await group.start())
    facts = await wait_until_up(group, client, addresses)
    engine, adapter = engine_of(group, client, addresses, facts), GroupAdapter(facts)
    assert await adapter.ping(engine) is None
    for link in engine.pool.links.values():
        engine.pool.heard(link)
    answer = await adapter.ping(engine)
    assert answer is not None
    assert answer.holds == {Hold.ENGINE_PAUSED}


async def test_a_key_that_is_not_the_groups_gets_no_facts(group_of: Start) -> None:
    """What another program on that port would say is not believed for want of an answer."""
    group, other = group_of(), InstanceClient("another")
    addresses = addresses_of(await group.start())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await wait_until_up(group, other, addresses)
    await other.close()


@pytest.mark.parametrize(
    ("word", "text"), [("refuse", "--max-num-seqs: no seats"), ("vanish", "its process has ended")]
)
async def test_one_that_does_not_start_ends_with_one_line(group_of: Start, word: str, text: str) -> None:
    """Its own, where it has said one."""
    with pytest.raises(NoEngineError, match=text):
        await group_of(word).start()


async def test_arguments_that_vllm_refuses_are_no_engine_that_failed(group_of: Start) -> None:
    """By its exit code."""
    with pytest.raises(ArgumentsRefusedError):
        await group_of("misuse").start()


async def test_the_end_of_an_api_server_is_passed_on(group_of: Start) -> None:
    """With its number; the group lives, which is known at once after a connection broke."""
    group, lost = group_of("lose", "1"), list[int]()
    group.on_lost = lost.append
    await group.start()
    await until(lambda: lost == [1])
    async with asyncio.timeout(0.3):
        await group.settled("api-server-1")
    assert not group.gone


@pytest.mark.parametrize("how", ["it says so", "it is killed"])
async def test_the_end_of_the_engine_is_known_however_it_comes(group_of: Start, how: str) -> None:
    """By its last word, which comes first, or by the end of the process."""
    said = how == "it says so"
    group, dead = group_of(*(["die"] if said else [])), list[bool]()
    group.on_dead = lambda: dead.append(True)
    await group.start()
    if not said:
        group.kill()
    await until(lambda: group.gone)
    if said:
        await until(lambda: dead == [True])
        assert group.why == "EngineCore (process 1) has ended"


async def test_another_group_takes_the_place_of_a_dead_one(group_of: Start, client: InstanceClient) -> None:
    """At other ports, under the same names; they are healthy at once, and nothing is left of the old process."""
    group = group_of()
    addresses = addresses_of(await group.start())
    engine = engine_of(group, client, addresses, await wait_until_up(group, client, addresses))
    (before,) = psutil.Process().children()
    for link in engine.pool.links.values():
        engine.pool.lost(link)
    group.kill()
    assert engine.errored
    await GroupReplacer(group, engine).start()
    assert not engine.errored
    assert [one.address.name for one in engine.pool.healthy()] == ["api-server-0", "api-server-1"]
    assert {one.address.url for one in engine.pool.healthy()}.isdisjoint(one.url for one in addresses)
    assert not before.is_running()


async def test_an_engine_that_ends_while_it_starts_is_an_error(group_of: Start, client: InstanceClient) -> None:
    """The supervisor tries again."""
    group = group_of()
    said = await group.start()
    group.kill()
    with pytest.raises(NoEngineError):
        await wait_until_up(group, client, addresses_of(said))
