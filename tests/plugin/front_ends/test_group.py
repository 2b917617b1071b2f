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
from headway.router.engine import InstancesEngine
from headway.router.exchange import InstanceClient
from headway.router.heartbeat import Heartbeat
from headway_policies import Hold

STAND_IN = (sys.executable, str(Path(stand_in_group.__file__)))
Start = Callable[..., Group]
ClientOf = Callable[[Group], InstanceClient]


@pytest.fixture
async def group_of() -> AsyncIterator[Start]:
    """Makes groups, and ends them."""
    made: list[Group] = []

    def make(*words: str, count: int = 2) -> Group:
        made.append(Group(words, count, STAND_IN))
        return made[-1]

    yield make
    for one in made:
        await one.end()


@pytest.fixture
async def client_of() -> AsyncIterator[ClientOf]:
    """Makes clients with the key of a group, and closes them."""
    made: list[InstanceClient] = []

    def make(group: Group) -> InstanceClient:
        made.append(InstanceClient(group.key))
        return made[-1]

    yield make
    for one in made:
        await one.close()


async def engine_before(group: Group, client: InstanceClient) -> tuple[InstancesEngine, GroupAdapter]:
    """The engine of a group that is started, once its API servers answer; all of them are healthy."""
    addresses = addresses_of(await group.start())
    facts = await wait_until_up(group, client, addresses)
    engine = engine_of(group, client, addresses, facts)
    for link in engine.pool.links.values():
        engine.pool.heard(link)
    return engine, GroupAdapter(facts)


def process_of_group() -> psutil.Process:
    """The one stand-in that runs; children of other tests may run beside it."""
    live = [one for one in psutil.Process().children() if one.status() != psutil.STATUS_ZOMBIE]
    (found,) = [one for one in live if STAND_IN[1] in one.cmdline()]
    return found


def names(engine: InstancesEngine) -> list[str]:
    """The API servers that are healthy."""
    return [one.address.name for one in engine.pool.healthy()]


async def until(holds: Callable[[], bool]) -> None:
    """Poll until it holds."""
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.02)


async def test_it_says_where_its_api_servers_listen_and_they_say_what_their_engine_is(
    group_of: Start, client_of: ClientOf
) -> None:
    """The seats are those of the engine, for all of them together."""
    group = group_of()
    client = client_of(group)
    assert group.gone
    said = await group.start()
    assert (len(said["ports"]), said["front_end"], group.gone) == (2, "1", False)
    addresses = addresses_of(said)
    assert [one.name for one in addresses] == ["api-server-0", "api-server-1"]
    facts = await wait_until_up(group, client, addresses)
    assert (facts.seats, facts.device, facts.settings.max_model_len) == (8, "cpu", 2048)
    assert engine_of(group, client, addresses, facts).max_num_seqs == 8


async def test_an_api_server_passes_pings_on(group_of: Start, client_of: ClientOf) -> None:
    """With what keeps the engine from running; without a healthy one nobody can be asked."""
    group = group_of()
    engine, adapter = await engine_before(group, client_of(group))
    answer = await adapter.ping(engine)
    assert answer is not None
    assert answer.holds == {Hold.ENGINE_PAUSED}
    for link in engine.pool.links.values():
        engine.pool.lost(link)
    assert await adapter.ping(engine) is None


@pytest.mark.parametrize("words", [("hang", "0"), ("fail", "0")], ids=" ".join)
async def test_the_engine_answers_through_any_api_server(
    words: tuple[str, ...], group_of: Start, client_of: ClientOf
) -> None:
    """One that hangs or fails does not make it a hung engine."""
    group = group_of(*words)
    engine, adapter = await engine_before(group, client_of(group))
    async with asyncio.timeout(30):
        assert await adapter.ping(engine) is not None


async def test_a_ping_that_every_api_server_fails_is_an_error(group_of: Start, client_of: ClientOf) -> None:
    """And no engine that cannot be asked."""
    group = group_of("fail", "0", "fail", "1")
    engine, adapter = await engine_before(group, client_of(group))
    with pytest.raises(NoEngineError, match="could not ask the engine"):
        await adapter.ping(engine)


async def test_a_key_that_is_not_the_groups_gets_no_facts(group_of: Start) -> None:
    """What another program on that port would say is not believed for want of an answer."""
    group, other = group_of(), InstanceClient("another")
    addresses = addresses_of(await group.start())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await wait_until_up(group, other, addresses)
    await other.close()


async def test_each_group_has_a_key_of_its_own_that_is_sent_to_no_port_of_one_before(
    group_of: Start, client_of: ClientOf
) -> None:
    """From its end on its ports are anyone's, also while the next one starts: nothing is sent there, and nothing that
    listens there is healthy."""
    group, strangers = group_of(), list[bytes]()
    client = client_of(group)
    engine, _ = await engine_before(group, client)
    key, address = group.key(), engine.pool.links["api-server-0"].address
    await group.end()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        strangers.append(await reader.readline())
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    stranger = await asyncio.start_server(listen, "127.0.0.1", int(address.url.rpartition(":")[2]))
    with pytest.raises(ConnectionRefusedError):
        await client.get(address, "/health", 5.0)
    heartbeat = Heartbeat(engine)
    await heartbeat.once()
    assert (strangers, names(engine)) == ([], [])
    start = asyncio.create_task(GroupReplacer(group, engine).start())
    while not start.done():
        await heartbeat.once()
        await asyncio.sleep(0)
    await start
    assert (strangers, len(names(engine))) == ([], 2)
    stranger.close()
    assert group.key() != key


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
        await group.wait_for_report("api-server-1")
    assert not group.gone


async def test_an_api_server_that_is_lost_while_it_starts_is_not_waited_for(
    group_of: Start, client_of: ClientOf
) -> None:
    """Its port takes connections and answers none. The others serve, also in the place of a group that has died."""
    group = group_of("lose", "0")
    addresses = addresses_of(await group.start())
    await until(lambda: group.lost == {"api-server-0"})
    client = client_of(group)
    async with asyncio.timeout(30):
        engine = engine_of(group, client, addresses, await wait_until_up(group, client, addresses))
        await Heartbeat(engine).once()
        assert names(engine) == ["api-server-1"]
        group.kill()
        await GroupReplacer(group, engine).start()
    assert names(engine) == ["api-server-1"]


async def test_the_loss_of_every_api_server_while_they_start_is_an_error(group_of: Start, client_of: ClientOf) -> None:
    """The supervisor tries again."""
    group = group_of("lose", "0", count=1)
    addresses = addresses_of(await group.start())
    with pytest.raises(NoEngineError, match="every API server ended"):
        async with asyncio.timeout(30):
            await wait_until_up(group, client_of(group), addresses)


@pytest.mark.parametrize("how", ["it says so", "it is killed from here", "its process ends"])
async def test_the_end_of_the_engine_is_told_once_however_it_comes(group_of: Start, how: str) -> None:
    """By its last word, which comes first, by an order from here, or by the end of the process without a word."""
    said = how == "it says so"
    group, dead = group_of(*(["die"] if said else [])), list[bool]()
    group.on_dead = lambda: dead.append(True)
    await group.start()
    process = process_of_group()
    if how == "it is killed from here":
        group.kill()
    if how == "its process ends":
        process.kill()
    await until(lambda: group.gone and bool(dead))
    if said:
        assert group.why == "EngineCore (process 1) has ended"
    group.kill()
    process.wait(30)  # so that the next start waits for nothing, and what is left of the first ends after it
    await group.start()
    assert (dead, group.gone) == ([True], False)


async def test_another_group_takes_the_place_of_a_dead_one(group_of: Start, client_of: ClientOf) -> None:
    """At other ports, under the same names; they are healthy at once, and nothing is left of the old process."""
    group = group_of()
    engine, _ = await engine_before(group, client_of(group))
    addresses = [one.address for one in engine.pool.links.values()]
    before = process_of_group()
    for link in engine.pool.links.values():
        engine.pool.lost(link)
    group.kill()
    assert engine.errored
    await GroupReplacer(group, engine).start()
    assert not engine.errored
    assert names(engine) == ["api-server-0", "api-server-1"]
    assert {one.address.url for one in engine.pool.healthy()}.isdisjoint(one.url for one in addresses)
    assert not before.is_running()


async def test_an_engine_that_ends_while_it_starts_is_an_error(group_of: Start, client_of: ClientOf) -> None:
    """The supervisor tries again."""
    group = group_of()
    said = await group.start()
    group.kill()
    with pytest.raises(NoEngineError):
        await wait_until_up(group, client_of(group), addresses_of(said))
