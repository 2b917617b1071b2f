"""Two fronts before the same instances: on a virtual clock, with all of each but the network.

Gate, desk, pool, heartbeat, engine and the rounds between the fronts are real. Of an instance it is counted at every
moment how much runs there beyond its limit: as a share of the limit, over the whole time, it is below 1 %.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from front_world import LIMIT, Front, Instance, World, two
from small_presets import small_preset
from tiers import long_form
from virtual_time import on_virtual_time

from headway.admission import loop_time_s
from headway.router.addresses import Address
from headway.router.fronts import EVERY_S, read_claims
from headway.router.instances.instance import InstanceLink
from headway_policies import Block
from headway_policies.sharing.fronts import GONE_S, LEASE_S

FULL = 5 * LIMIT // 2
#: Longer than all that they have under way takes.
ALL_END_S = 30.0
#: What the two fronts have under way in each phase; the instances run 2 * LIMIT.
PHASES = {
    "both full": [(FULL, FULL)] * 2,
    "in turns": [(FULL, 0), (0, FULL), (FULL, 0)],
    "one light": [(FULL, 6), (6, FULL)],
    "both light": [(8, 8), (6, 12), (12, 6)],
    **{
        f"at random {seed}": [tuple(Random(seed + at).choices((0, 3, 16, FULL), k=2)) for at in range(4)]
        for seed in (1, 2)
    },
}
OTHER_PHASES = long_form("the phases in turns and with one light front have these moments")
BOUNDS = {"instance": (256, LIMIT), "preset": (2 * LIMIT, 256)}


async def driven(world: World, phases: list[tuple[int, ...]]) -> list[tuple[int, float]]:
    """For each phase what could run at once of what there was, and how much did, once the seats had moved."""
    used = []
    for wanted in phases:
        world.wanted = dict(zip("xy", wanted, strict=True))
        await asyncio.sleep(18)
        world.use()
        await asyncio.sleep(4)
        used.append((min(sum(wanted), 2 * LIMIT), world.use()))
    return used


@pytest.mark.parametrize(
    ("phases", "bound"),
    [
        *(("one light", bound) for bound in BOUNDS),
        pytest.param("in turns", "instance", marks=pytest.mark.slow),
        pytest.param("in turns", "preset", marks=long_form("one light has this bound, and in turns the other one")),
        *(
            pytest.param(one, bound, marks=OTHER_PHASES)
            for one in ("both full", "both light", "at random 1", "at random 2")
            for bound in BOUNDS
        ),
    ],
)
@on_virtual_time
async def test_two_fronts_keep_the_limit_of_plain_instances(phases: str, bound: str) -> None:
    """Exactly, though the instances have no gate: the seats of each instance, or the fewer that the preset opens for
    all of them. Of what could run no more stays unused than the seat of 32 that is an idle front's.
    """
    world = World(len(phases), most_late_s=0.4 if len(phases) % 2 else 0.02)
    async with two(world, *BOUNDS[bound]):
        used = await driven(world, PHASES[phases])
        assert world.everything.ratios() == (0.0, 0.0)
        if bound == "instance":
            assert [one.meter.ratios() for one in world.instances.values()] == [(0.0, 0.0)] * 2
        for could, did in used:
            assert did >= 0.95 * could / (2 * LIMIT)


@pytest.mark.parametrize("bound", ["instance", pytest.param("preset", marks=OTHER_PHASES)])
@on_virtual_time
async def test_two_fronts_that_do_not_know_each_other_go_beyond_the_limit(bound: str) -> None:
    """Each counts what the other one runs there, a second late; what the preset opens each opens by itself."""
    world = World(1)
    async with two(world, *BOUNDS[bound], linked=False):
        await driven(world, PHASES["both full"])
        area, begun = world.everything.ratios()
        assert min(area, begun) > (0.02 if bound == "instance" else 0.9)


@pytest.mark.parametrize("linked", [True, False])
@on_virtual_time
async def test_an_instance_with_headway_keeps_its_limit_by_itself(linked: bool) -> None:
    """Its gate is the last word. Fronts that know each other leave only the room for growth waiting there, others twice
    as much as it runs.
    """
    world = World(3, gated=True)
    async with two(world, linked=linked) as both:
        used = await driven(world, PHASES["both full"])
        assert world.everything.ratios() == (0.0, 0.0)
        assert min(did for _, did in used) > 0.99
        for one in world.instances.values():
            assert (one.most_waiting <= LIMIT // 2) is linked
        world.wanted = dict.fromkeys("xy", 0)
        await asyncio.sleep(ALL_END_S)
        assert all(front.completed == front.sent > 0 for front in both)


@pytest.mark.parametrize("closes", [True, False], ids=["its process", "its machine"])
@on_virtual_time
async def test_of_a_front_that_dies_the_other_one_has_the_seats_and_loses_nothing(closes: bool) -> None:
    """Of a killed process within two rounds and a heartbeat. A machine that is gone answers nothing, and the instances
    run its requests to their end: that takes until it counts as gone. No limit is exceeded meanwhile; one that is back
    has its half.
    """
    world = World(4, most_late_s=0.05)
    async with two(world) as (first, second):
        world.wanted = dict.fromkeys("xy", FULL)
        await asyncio.sleep(20)
        assert granted(second) == LIMIT
        if not closes:
            world.silent.add("x")
        await first.end(closes=closes)
        await asyncio.sleep(2 * EVERY_S + 1.5 + (0 if closes else GONE_S))
        assert granted(second) == 2 * LIMIT
        await asyncio.sleep(10)
        world.use()
        await asyncio.sleep(5)
        assert world.use() > 0.99
        world.silent.clear()
        again = Front(world, "x", second.preset, LIMIT, linked=True)
        await again.begin()
        await asyncio.sleep(20)
        assert granted(again) == granted(second) == LIMIT
        world.wanted = dict.fromkeys("xy", 0)
        await asyncio.sleep(ALL_END_S)
        assert second.completed == second.sent
        await again.end()
        assert [one.meter.ratios() for one in world.instances.values()] == [(0.0, 0.0)] * 2


def granted(front: Front) -> int:
    """The seats that a front may fill."""
    return sum(one.granted or 0 for one in front.pool.links.values())


@on_virtual_time
async def test_a_front_whose_rounds_stop_fills_no_seat_after_its_lease() -> None:
    """The front may have been without time for long, and the others may have its seats."""
    world = World(5)
    async with two(world) as (first, _):
        await asyncio.sleep(5)
        first.background[-1].cancel()
        await asyncio.sleep(LEASE_S)
        world.wanted["x"] = 4
        await asyncio.sleep(5)
        assert (first.sent, world.everything.begun) == (4, 0)


@on_virtual_time
async def test_a_front_that_is_paused_leaves_its_seats_to_the_other_one() -> None:
    """Requests that wait in it want none before it is resumed; then it has its half again."""
    world = World(9)
    async with two(world) as (first, second):
        world.wanted = dict.fromkeys("xy", FULL)
        await asyncio.sleep(10)
        first.parts.gateway.gate.pause(Block.OPERATOR)
        await asyncio.sleep(20)
        assert granted(second) == 2 * LIMIT - 1
        first.parts.gateway.gate.resume(Block.OPERATOR)
        await asyncio.sleep(20)
        assert granted(first) == granted(second) == LIMIT
        assert world.everything.ratios() == (0.0, 0.0)


@on_virtual_time
async def test_an_instance_that_comes_has_no_seats_before_the_next_round() -> None:
    """Both fronts may find it at the same time."""
    world = World(6)
    async with two(world) as (first, _):
        await asyncio.sleep(5)
        world.instances["i:3"] = Instance(world.everything, gated=False)
        link = InstanceLink(Address("i:3", "http://i:3"), LIMIT)
        first.pool.join(link)
        assert link.allowed(loop_time_s()) == 0
        await asyncio.sleep(5)
        assert link.allowed(loop_time_s()) == LIMIT // 2


@on_virtual_time
async def test_a_front_that_is_none_of_the_list_keeps_to_its_even_share(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody can hear it there. The log says so."""
    caplog.set_level("INFO")
    world = World(7)
    front = Front(world, "z", small_preset(256), LIMIT, linked=True)
    await front.begin()
    await asyncio.sleep(10)
    assert granted(front) == LIMIT
    assert "other fronts: 0 of 1; none of --fronts is this one yet" in caplog.text
    await front.end()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"front": "a", "wanted": 1, "limit": 1, "seats": 3}', '{"front": "a", "wanted": -1, "limit": 1}',
     '{"front": "a", "wanted": 1, "limit": 1, "seats": {"i": -1}}', '{"front": "a", "wanted": 1e999, "limit": 1}'],
)  # fmt: skip
def test_what_is_no_answer_of_a_front_is_refused(text: str) -> None:
    """Another server may stand at its address."""
    with pytest.raises(ValueError, match=r"front|Expecting"):
        read_claims(text)


def test_a_front_may_want_more_seats_than_there_can_be() -> None:
    """A queue of 10^5 requests with sixteen answers each is no silence: the front would be taken for gone."""
    said = read_claims('{"front": "a", "wanted": 1600000, "limit": 32, "seats": {"i": 16}}')
    assert (said.front, said.wanted, said.seats) == ("a", 1_000_000, {"i": 16})


@on_virtual_time
async def test_a_round_that_fails_is_logged_and_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    """The seats are kept for two seconds."""
    world = World(8)
    async with two(world) as (first, _):
        await asyncio.sleep(5)
        hear, first.others.share.hear = first.others.share.hear, None  # type: ignore[method-assign,assignment]
        await asyncio.sleep(LEASE_S + 1)
        assert "the other fronts could not be asked" in caplog.text
        assert first.pool.links["i:1"].allowed(loop_time_s()) == 0
        first.others.share.hear = hear  # type: ignore[method-assign]
        await asyncio.sleep(5)
        assert granted(first) == LIMIT
