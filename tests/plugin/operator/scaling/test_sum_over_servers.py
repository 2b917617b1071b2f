"""Several servers without a router, whose parts an autoscaler adds up: it finds the number, and does not run away."""

from __future__ import annotations

import asyncio
from collections import deque
from math import ceil

import pytest
from small_presets import small_preset, terms
from virtual_time import on_virtual_time

from headway.admission import Gate
from headway.errors import Refused
from headway.operator.scaling.load_reader import LoadReader
from headway.operator.scaling.scale_signal import EVERY_S, OwnNeed, ScaleSignal
from headway_policies import Ending

pytestmark = pytest.mark.slow

SEATS, HOLD_S, ASK_S, HOLD_DOWN_S = 8, 2.0, 15.0, 120.0


class Cluster:
    """Servers that share a stream in turn, and an autoscaler: the sum rounded up, down not before a quiet while."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._servers: list[tuple[Gate, ScaleSignal]] = []
        self._asked: deque[int] = deque(maxlen=int(HOLD_DOWN_S / ASK_S))
        self._calls: set[asyncio.Task[None]] = set()
        self._turn = 0
        self._set(1)

    async def serve(self, per_s: float, for_s: float) -> None:
        """So many requests a second for so long, by as many servers as are asked for."""
        asking = asyncio.create_task(self._ask())
        for _ in range(int(per_s * for_s)):
            self._turn += 1
            gate = self._servers[self._turn % len(self._servers)][0]
            call = asyncio.create_task(self._request(gate))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
            await asyncio.sleep(1.0 / per_s)
        asking.cancel()

    async def _ask(self) -> None:
        while True:
            for _ in range(int(ASK_S / EVERY_S)):
                await asyncio.sleep(EVERY_S)
                for _, signal in self._servers:
                    signal.update()
            self._asked.append(max(1, ceil(sum(signal.instances for _, signal in self._servers))))
            self._set(max(self._asked))

    def _set(self, number: int) -> None:
        self.numbers.append(number)
        while len(self._servers) < number:
            gate = Gate(small_preset(SEATS, classes={"normal": terms(2, places=64, queue_s=10.0, ttft_slo_s=2.0)}))
            self._servers.append((gate, ScaleSignal(LoadReader(gate, lambda: 1), OwnNeed())))
        del self._servers[number:]

    async def _request(self, gate: Gate) -> None:
        try:
            permit = gate.enter()
        except Refused:
            return
        ending = Ending.FAILED
        try:
            await permit.admitted()
            permit.first_token()
            await asyncio.sleep(HOLD_S)
            ending = Ending.COMPLETED
        except Refused:
            pass
        finally:
            permit.leave(ending)


@on_virtual_time
async def test_the_number_follows_the_load_up_and_down() -> None:
    """Six seats of eight are wanted, then eighteen, for which three servers are needed at 80 %; then six again."""
    cluster = Cluster()
    await cluster.serve(3.0, 150.0)
    assert set(cluster.numbers) == {1}
    await cluster.serve(9.0, 360.0)
    assert cluster.numbers[-1] == 3
    assert max(cluster.numbers) <= 5
    await cluster.serve(3.0, 300.0)
    assert cluster.numbers[-1] == 1
