"""Soak test of gate and gateway: many requests on an engine that answers at once, and the resources kept afterwards.

    python tests/benchmarks/soak.py --requests 1000000 --warm-up 100000

More than a tenth is cancelled, at every stage; one in nineteen may not wait and is nearly always refused,
since there are four times as many clients as seats. Every tenth has a tenant of its own. Tasks, descriptors, timers
and metric series are compared while idle, before and after; memory is sampled throughout. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import asdict, dataclass
from typing import Any

import psutil
from prometheus_client import CollectorRegistry, generate_latest

from headway.engine.fake import FakeOutput, FakeParams
from headway.engine.port import PlainAdapter
from headway.errors import Refused
from headway.operator.control import Control
from headway.operator.install import install, prepare
from headway.operator.metrics import Meters, MetricsCollector
from headway.operator.presets import PresetCatalogue
from headway.supervision.memory.gc_control import GcControl
from headway_policies.preset import with_fixed_limit
from headway_policies.request.outcome import REFUSED

CLIENTS_PER_SEAT = 4
SAMPLES = 40
MIB = 2**20
PER_REQUESTS = 100_000
CLASSES = ("realtime", "normal", "batch")


class SwiftEngine:
    """An engine that emits one token in each turn of the event loop. It keeps no state of a request that has ended."""

    max_num_seqs = 64
    errored = False

    def __init__(self) -> None:
        self.running: set[str] = set()

    async def generate(
        self, prompt: Any, sampling_params: FakeParams, request_id: str, *, priority: int = 0, **options: Any
    ) -> AsyncGenerator[FakeOutput, None]:
        self.running.add(request_id)
        try:
            for done in range(1, sampling_params.max_tokens + 1):
                await asyncio.sleep(0)
                if request_id not in self.running:
                    yield FakeOutput(request_id, tuple(range(done)), True, "abort", 4)
                    return
                last = done == sampling_params.max_tokens
                yield FakeOutput(request_id, tuple(range(done)), last, "length" if last else None, 4)
        finally:
            self.running.discard(request_id)

    async def abort(self, request_id: str) -> None:
        self.running.discard(request_id)


@dataclass(frozen=True)
class Rest:
    """The resources that are held while the server is idle."""

    tasks: int
    descriptors: int
    timers: int
    series: int
    open_calls: int
    tickets: int
    running: int


class Soak:
    """The gate of one server, its clients, and the clients' own log of how each request ended."""

    def __init__(self) -> None:
        self.registry, self.engine, catalogue = CollectorRegistry(), SwiftEngine(), PresetCatalogue()
        meters = Meters.for_presets(catalogue, self.registry)
        preset = with_fixed_limit(catalogue.get("latency"), 8)
        self.control: Control = install(prepare(self.engine, PlainAdapter(), preset, meters=meters), catalogue)
        self.registry.register(MetricsCollector(self.control.snapshot, asyncio.get_running_loop()))
        self.clients = CLIENTS_PER_SEAT * preset.batching.seats
        self.log: Counter[str] = Counter()
        self.sent = 0

    async def run(self, requests: int) -> None:
        """Send so many more requests."""
        until = self.sent + requests
        async with asyncio.TaskGroup() as group:
            for _ in range(self.clients):
                group.create_task(self._client(until))

    async def _client(self, until: int) -> None:
        while self.sent < until:
            self.sent += 1
            number = self.sent
            request = asyncio.create_task(self._ask(number, may_wait=number % 19 != 7))
            if number % 20 in (3, 9, 14):
                for _ in range(1 + number // 20 % 12):
                    await asyncio.sleep(0)
                request.cancel()
            self.log[await self._ending(request)] += 1

    async def _ending(self, request: asyncio.Task[None]) -> str:
        try:
            await request
        except Refused as refusal:
            return REFUSED[refusal.reason]
        except asyncio.CancelledError:
            return "cancelled"
        return "completed"

    async def _ask(self, number: int, *, may_wait: bool) -> None:
        engine: Any = self.engine
        tenant = f"only-{number}" if number % 10 == 0 else f"tenant-{number % 7}"
        wishes = {"priority": CLASSES[number % 3], "tenant": tenant, "may_wait": may_wait, "timeout_s": 60.0}
        stream = engine.generate("a short prompt", FakeParams(1 + number % 5), f"r{number}", **wishes)
        async with contextlib.aclosing(stream):
            async for _ in stream:
                pass

    async def rest(self) -> Rest:
        """Wait until the server is idle, and count."""
        await asyncio.sleep(0.5)
        loop: Any = asyncio.get_running_loop()
        lines = (await asyncio.to_thread(generate_latest, self.registry)).decode().splitlines()
        desk = self.control.gateway.gate.desk
        return Rest(
            tasks=len(asyncio.all_tasks()),
            descriptors=psutil.Process().num_fds(),
            timers=sum(not timer.cancelled() for timer in loop._scheduled),
            series=sum(not line.startswith("#") for line in lines),
            open_calls=self.control.gateway.open_calls,
            tickets=desk.ledger.queued
            + desk.ledger.in_flight
            + len(desk._lifecycle.records)
            + len(desk._lifecycle.deadlines._at_s),
            running=len(self.engine.running),
        )

    def ledger(self) -> dict[str, int]:
        """The outcomes as the server counted them."""
        total: Counter[str] = Counter()
        for counts in self.control.gateway.gate.desk.ledger.classes.values():
            assert counts.balanced
            total += Counter({outcome.value: number for outcome, number in counts.outcomes.items()})
        return dict(total)


def slope(points: list[tuple[float, float]]) -> tuple[float, float]:
    """The slope of a line through the points by least squares, and the upper end of its 95 % interval."""
    mean_x, mean_y = (sum(point[axis] for point in points) / len(points) for axis in (0, 1))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    rest = sum((y - mean_y - rise * (x - mean_x)) ** 2 for x, y in points)
    return rise, rise + 1.96 * math.sqrt(rest / (len(points) - 2) / spread)


async def soak(requests: int, warm_up: int) -> dict[str, Any]:
    """Run the whole soak test; ``growth_mib`` is for every 100,000 requests."""
    one, process = Soak(), psutil.Process()
    with GcControl() as collector:
        await one.run(warm_up)
        before, cleared = await one.rest(), Counter(one.log)
        gc.collect()
        started_s, points = time.perf_counter(), [(0.0, float(process.memory_info().rss))]
        for sample in range(SAMPLES):
            await one.run(requests * (sample + 1) // SAMPLES - requests * sample // SAMPLES)
            collector.update(idle=False)
            points.append(((one.sent - warm_up) / PER_REQUESTS, process.memory_info().rss / 1.0))
        took_s, after = time.perf_counter() - started_s, await one.rest()
        longest_pause_s = max(generation.largest for generation in collector.pauses.read()[:2])
    rise, most = slope(points)
    return {
        "requests": sum((one.log - cleared).values()),
        "warm_up": warm_up,
        "clients_log": dict(one.log),
        "ledger": one.ledger(),
        "growth_mib": round(rise / MIB, 3),
        "growth_mib_at_most": round(most / MIB, 3),
        "rss_mib": [round(points[0][1] / MIB, 1), round(points[-1][1] / MIB, 1)],
        "rest_before": asdict(before),
        "rest_after": asdict(after),
        "longest_young_gc_pause_ms": round(1000 * longest_pause_s, 2),
        "requests_per_s": round(requests / took_s),
    }


def main() -> None:
    """Run it as asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--warm-up", type=int, default=5_000)
    chosen = parser.parse_args()
    print(json.dumps(asyncio.run(soak(chosen.requests, chosen.warm_up))))


if __name__ == "__main__":
    main()
