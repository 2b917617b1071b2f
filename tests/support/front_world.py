"""Instances, the fronts before them and the network between them, on a virtual clock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from random import Random

from engines import installed
from instance_pools import pool_of
from small_presets import small_preset, terms

from headway.admission import loop_time_s
from headway.router.adapter import InstancesAdapter
from headway.router.addresses import Address
from headway.router.application import open_seats
from headway.router.engine import InstancesEngine
from headway.router.forwarding.call import Call
from headway.router.forwarding.forwarded import CallParams, Forwarded, Piece
from headway.router.fronts import Fronts
from headway.router.heartbeat import Heartbeat
from headway_policies import Preset
from headway_policies.routing import Demand

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
