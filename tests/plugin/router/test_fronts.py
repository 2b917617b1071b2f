"""Two fronts before the same instances: on a virtual clock, with all of each but the network.

Gate, desk, pool, heartbeat, engine and the rounds between the fronts are real. Of an instance it is counted at every
moment how much runs there beyond its limit: as a share of the limit, over the whole time, it is below 1 %.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from random import Random

import pytest
from engines import installed
from instance_pools import pool_of
from small_presets import small_preset, terms
from tiers import long_form
from virtual_time import on_virtual_time

from headway.admission import loop_time_s
from headway.router.adapter import InstancesAdapter
from headway.router.addresses import Address
from headway.router.application import open_seats
from headway.router.call import Call
from headway.router.engine import InstancesEngine
from headway.router.forwarded import CallParams, Forwarded, Piece
from headway.router.fronts import EVERY_S, Fronts, read_claims
from headway.router.heartbeat import Heartbeat
from headway.router.instance import InstanceLink
from headway_policies import Hold, Preset
from headway_policies.routing import Demand
from headway_policies.sharing.fronts import GONE_S, LEASE_S

REQUEST = Forwarded("POST", "/v1/completions", ())
NAMES = ("i:1", "i:2")
LIMIT = 16


@dataclass
class Meter:
    """What runs somewhere, and how much of it beyond a limit: as areas over the time, and in requests that began."""

    limit: int
    running: int = 0
    begun: int = 0
    beyond: int = 0
    excess: float = 0.0
    work: float = 0.0
    since_s: float = 0.0

    def changes(self, by: int = 0) -> None:
        """So many more run, or less."""
        now_s = loop_time_s()
        span_s, self.since_s = now_s - self.since_s, now_s
        self.excess += span_s * max(0, self.running - self.limit)
        self.work += span_s * min(self.running, self.limit)
        self.running += by
        self.begun += by > 0
        self.beyond += by > 0 and self.running > self.limit

    def ratios(self) -> tuple[float, float]:
        """How much more ran than the limit, as a share of it over the whole time; the share of requests begun then."""
        self.changes()
        return self.excess / (self.limit * loop_time_s()), self.beyond / max(1, self.begun)


class Instance:
    """One that runs all that it is sent, as vLLM below its own --max-num-seqs, or where it is ``gated`` its limit."""

    def __init__(self, everything: Meter, *, gated: bool) -> None:
        self.meter, self.everything = Meter(LIMIT), everything
        self.gated = gated
        self.waiting = self.most_waiting = self.tokens = 0
        self.opens = asyncio.Condition()

    async def run(self, length_s: float) -> None:
        """One request."""
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        try:
            async with self.opens:
                await self.opens.wait_for(lambda: not self.gated or self.meter.running < LIMIT)
                self._changes(1)
        finally:
            self.waiting -= 1
        try:
            await asyncio.sleep(length_s)
        finally:
            self._changes(-1)
            self.tokens += 10
            async with self.opens:
                self.opens.notify_all()

    def _changes(self, by: int) -> None:
        self.meter.changes(by)
        self.everything.changes(by)

    def metrics(self) -> str:
        limit = f'headway_limit{{kind="live"}} {LIMIT}\n' if self.gated else ""
        return (
            f"{limit}vllm:num_requests_running {self.meter.running}\nvllm:num_requests_waiting {self.waiting}\n"
            f"vllm:generation_tokens_total {self.tokens}\n"
        )


class World:
    """The instances, the fronts, and the network between them; what it takes is drawn for each request."""

    def __init__(self, seed: int, *, gated: bool = False, most_late_s: float = 0.3) -> None:
        self.random = Random(seed)
        self.everything = Meter(LIMIT * len(NAMES))
        self.instances = {name: Instance(self.everything, gated=gated) for name in NAMES}
        self.wanted = dict.fromkeys("xy", 0)
        self.used = 0.0, 0.0
        self.fronts: dict[str, Front] = {}
        self.silent: set[str] = set()
        self.most_late_s = most_late_s

    async def get(self, address: Address, path: str, within_s: float) -> tuple[int, str]:
        """What a front is answered by an instance, or by a front."""
        async with asyncio.timeout(within_s):
            await asyncio.sleep(self.random.uniform(0, self.most_late_s))
            if path == "/headway/front":
                if address.name in self.silent:
                    await asyncio.sleep(1e9)
                if address.name not in self.fronts:
                    raise ConnectionRefusedError
                said = json.dumps(asdict(self.fronts[address.name].others.claims()))
                await asyncio.sleep(self.random.uniform(0, self.most_late_s))
                return 200, said
            text = self.instances[address.name].metrics() if path == "/metrics" else ""
            await asyncio.sleep(self.random.uniform(0, self.most_late_s))
            return (404, "") if path == "/v1/models" else (200, text)

    async def exchange(
        self, address: Address, request: Forwarded, call: Call, prompt_tokens: int
    ) -> AsyncGenerator[Piece, None]:
        """One request at an instance."""
        await call.step(self.instances[address.name].run(self.random.uniform(2, 6)))
        yield Piece(b"yes", 200, last=True)

    def use(self) -> float:
        """How full the instances were since the last call."""
        self.everything.changes()
        (work, at_s), self.used = self.used, (self.everything.work, loop_time_s())
        return (self.used[0] - work) / (self.used[1] - at_s) / self.everything.limit


class Front:
    """A front at this place; ``linked``: it knows the others."""

    def __init__(self, world: World, place: str, preset: Preset, seats: int, *, linked: bool) -> None:
        self.world, self.place, self.linked = world, place, linked
        self.pool = pool_of(*NAMES, seats=seats, heard=False)
        self.engine = InstancesEngine(self.pool, world)  # type: ignore[arg-type]
        self.engine.max_num_seqs = self.pool.most_seats()
        places = [Address(name, f"http://{name}") for name in "xy"]
        self.others = Fronts(places, self.pool, world)  # type: ignore[arg-type]
        self.heartbeat = Heartbeat(self.engine)
        self.preset = preset
        self.tasks: set[asyncio.Task[None]] = set()
        self.completed = self.sent = 0

    async def begin(self) -> None:
        """As ``headway route`` does: it asks once, and listens then."""
        await self.heartbeat.once()
        _, self.parts = installed(self.engine, self.preset, adapter=InstancesAdapter())
        self.others.desk = self.parts.gateway.gate.desk
        self.pool.on_change = partial(open_seats, self.parts.gateway.gate, self.pool)
        self.pool.on_change()
        runs = [self.heartbeat.run(), self.keep()]
        if self.linked:
            await self.others.once()
            runs.append(self.others.run())
        self.background = [asyncio.create_task(one) for one in runs]
        self.world.fronts[self.place] = self

    def ask(self) -> None:
        """One request more."""
        self.sent += 1
        task = asyncio.create_task(self._request(f"{self.place}-{self.sent}"))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _request(self, name: str) -> None:
        async for piece in self.engine.generate(REQUEST, CallParams(), name, demand=Demand(10)):
            self.completed += piece.last

    async def keep(self) -> None:
        """Have as many requests under way as the world says."""
        while True:
            for _ in range(self.world.wanted[self.place] - len(self.tasks)):
                self.ask()
            await asyncio.sleep(0.05)

    async def end(self, *, closes: bool = True) -> None:
        """Killed: nothing listens there, and its connections close, unless its machine has gone with it."""
        self.world.fronts.pop(self.place, None)
        for task in self.background:
            task.cancel()
        if closes:
            for task in self.tasks:
                task.cancel()
        await asyncio.gather(*self.background, *(self.tasks if closes else ()), return_exceptions=True)
        self.parts.tasks.stop_all()


@asynccontextmanager
async def two(
    world: World, preset_seats: int = 256, seats: int = LIMIT, *, linked: bool = True
) -> AsyncIterator[tuple[Front, Front]]:
    """Two fronts that begin at the same time; what a preset opens is for both instances."""
    patient = {"normal": terms(1, places=10_000, queue_s=None, total_s=None)}
    preset = small_preset(preset_seats, most_waiting=10_000, classes=patient)
    both = Front(world, "x", preset, seats, linked=linked), Front(world, "y", preset, seats, linked=linked)
    await asyncio.gather(*(front.begin() for front in both))
    try:
        yield both
    finally:
        for front in both:
            if front.place in world.fronts:
                await front.end()
        await asyncio.sleep(10)  # what is cancelled ends


FULL = 5 * LIMIT // 2
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
OTHER_PHASES = long_form("the phases in turns and at random have these moments")
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


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(
    "phases",
    [
        "one light",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("in turns", "at random 1")),
        *(pytest.param(one, marks=OTHER_PHASES) for one in ("both full", "both light", "at random 2")),
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
        await asyncio.sleep(60)
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
        await asyncio.sleep(60)
        assert second.completed == second.sent
        await again.end()
        assert [one.meter.ratios() for one in world.instances.values()] == [(0.0, 0.0)] * 2


def granted(front: Front) -> int:
    """The seats that a front may fill."""
    return sum(one.granted or 0 for one in front.pool.links.values())


@on_virtual_time
async def test_a_front_whose_rounds_stop_fills_no_seat_after_its_lease() -> None:
    """It may have been without time for long, and the others may have its seats."""
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
    """What waits in it wants none before it is resumed; then it has its half again."""
    world = World(9)
    async with two(world) as (first, second):
        world.wanted = dict.fromkeys("xy", FULL)
        await asyncio.sleep(10)
        first.parts.gateway.gate.pause(Hold.OPERATOR)
        await asyncio.sleep(20)
        assert granted(second) == 2 * LIMIT - 1
        first.parts.gateway.gate.resume(Hold.OPERATOR)
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
