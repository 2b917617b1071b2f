"""The run: measures the constants, plays every block, and writes each into the results as it ends.

In each round all arms play one after another with the same arrivals, forwards in one round and backwards in the next,
so that a slow drift of the machine meets all of them. A block that was disturbed is played again, once; the less
disturbed one of the two is kept.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median

from headway.simulator.traffic.traffic import mean_rate
from headway.simulator.traffic.workload import WORKLOADS, Request, Workload
from headway_policies import bundled_presets
from serving.arms import Arm, all_arms, best_seats
from serving.client import Engine, closed_loop, open_loop, started
from serving.constants import Constants, measured
from serving.figures import BlockFigures, judged
from serving.quiet import MAX_OTHERS, MAX_SLOWER, Times, others_share, spin_s
from serving.results import Key, Results

_AT_ONCE = (1, 16)  # clients, where the cost of the layer is measured
_SETTLE_S = 2.0  # until the engine has dropped what was cut
SEATS = 128  # vLLM's own default for a server on the CPU


#: Called with what is done, and the share of the run that is done, 0 to 1.
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Form:
    """How long a run is. A block lasts ``lead_s + count_s + tail_s``; the requests due in ``count_s`` are counted."""

    workloads: tuple[str, ...]
    loads: tuple[float, ...]
    arms: tuple[str, ...]
    rounds: int
    lead_s: float
    count_s: float
    tail_s: float
    level_s: float
    layer_s: float
    grid: tuple[float, ...] = ()
    layer_rounds: int = 2

    @property
    def block_s(self) -> float:
        """Seconds of one block."""
        return self.lead_s + self.count_s + self.tail_s


#: Arrivals go on through the tail, so that what was counted ends under the load it began under.
SHORT = Form(
    workloads=("W1",),
    loads=(1.5,),
    arms=("plain", "priority", "cap", "cap-double", "balanced", "objective"),
    rounds=2,
    lead_s=8.0,
    count_s=22.0,
    tail_s=12.0,
    level_s=3.0,
    layer_s=5.0,
)
LONG = Form(
    workloads=("W1", "W3", "W6"),
    loads=(0.5, 1.0, 1.5, 2.0, 3.0),
    arms=("plain", "priority", "cap", "cap-half", "cap-double", "balanced", "objective", "interactive", "throughput"),
    rounds=3,
    lead_s=20.0,
    count_s=60.0,
    tail_s=20.0,
    level_s=8.0,
    layer_s=20.0,
    grid=(0.75, 1.25, 1.5),
    layer_rounds=6,
)


class Run:
    """One run on one model; ``results`` may hold what an earlier one has measured."""

    def __init__(self, model: Path, form: Form, results: Results, show: Progress) -> None:
        self.model, self.form, self.results, self.show = model, form, results, show
        self._fastest_s = min(spin_s() for _ in range(5))

    async def play(self) -> None:
        """All that the results lack."""
        form, results = self.form, self.results
        async with AsyncExitStack() as stack:
            engine = await stack.enter_async_context(started(self.model, bundled_presets()["throughput"], SEATS))
            if results.constants is None:
                results.constants = await measured(engine, form.level_s, lambda words: self.show(words, 0.0))
                results.write()
            constants = results.constants
            small = await self._small(stack, constants)
            if len(results.layer) < form.layer_rounds * len(_AT_ONCE) and form.layer_rounds:
                await self._layer(engine)
            todo = [
                (name, load, number) for name in form.workloads for load in form.loads for number in range(form.rounds)
            ]
            for done, (name, load, number) in enumerate(todo):
                await self._round(engine, small, WORKLOADS[name], load, number, (done / len(todo), 1 / len(todo)))

    async def _small(self, stack: AsyncExitStack, constants: Constants) -> Engine | None:
        """A second engine, with as many seats as are best: what ``--max-num-seqs`` would be set to."""
        if "priority" not in self.form.arms:
            return None
        seats = best_seats(WORKLOADS["W1"], constants.model, constants.slo)
        return await stack.enter_async_context(started(self.model, bundled_presets()["throughput"], seats))

    async def _round(
        self,
        engine: Engine,
        small: Engine | None,
        workload: Workload,
        load: float,
        number: int,
        part: tuple[float, float],
    ) -> None:
        """One block of each arm; ``part`` is the share of the run that is done before, and that this round is."""
        constants, form = self.results.constants, self.form
        assert constants is not None
        model, slo = constants.model, constants.slo
        arms = all_arms(workload, model, slo, form.grid)
        names = [*form.arms, *(name for name in arms if name.startswith("cap-x"))]
        self.results.arms |= {name: arms[name].words for name in names}
        requests = workload.requests(form.block_s, 1 + number, model=model, slo=slo, load=load)
        ceiling_per_s = mean_rate(workload, form.block_s, workload.rates_per_s(model, slo, 1.0))
        todo = [name for name in names if Key(workload.name, load, name, number) not in self.results.blocks]
        for place, name in enumerate(todo if number % 2 == 0 else todo[::-1]):
            words = f"{workload.name} at {load:g}, round {number + 1}: {name}"
            self.show(words, part[0] + part[1] * place / len(todo))
            figures = await self._block(arms[name], engine, small, requests, ceiling_per_s)
            if figures.disturbed:
                self.show(f"{words}, again", part[0] + part[1] * place / len(todo))
                again = await self._block(arms[name], engine, small, requests, ceiling_per_s)
                figures = min(figures, again, key=lambda one: one.disturbed)
            self.results.blocks[Key(workload.name, load, name, number)] = figures
            self.results.write()

    async def _block(
        self, arm: Arm, engine: Engine, small: Engine | None, requests: Sequence[Request], ceiling_per_s: float
    ) -> BlockFigures:
        """One arm under these arrivals, and how much it was disturbed: 0 where it was not."""
        constants, form = self.results.constants, self.form
        assert constants is not None
        on = small if arm.own_seats and small is not None else engine
        on.cap(arm.cap)
        await on.use(arm.preset_on(on.seats))
        slower, before = min(spin_s() for _ in range(3)), Times.now()
        began_s, client_s = asyncio.get_running_loop().time(), time.process_time()
        try:
            answers = await open_loop(arm.send(on), requests, form.block_s)
        finally:
            on.cap(None)
        client_s, after = time.process_time() - client_s, Times.now()
        await asyncio.sleep(_SETTLE_S)
        slower /= self._fastest_s
        others = others_share(before, after)
        count_s = (began_s + form.lead_s, began_s + form.lead_s + form.count_s)
        return judged(
            answers,
            constants.slo,
            count_s=count_s,
            ceiling_per_s=ceiling_per_s,
            client_s=client_s,
            disturbed=max(others, slower - 1) if others > MAX_OTHERS or slower > MAX_SLOWER else 0.0,
        )

    async def _layer(self, engine: Engine) -> None:
        """The same closed loop past the gate and through it, in turn: what the layer costs where nothing waits."""
        await engine.use(bundled_presets()["throughput"])
        self.results.layer = []
        for number in range(self.form.layer_rounds):
            for clients in _AT_ONCE:
                self.show(f"the layer's cost, {clients} at once, round {number + 1}", 0.0)
                found: dict[str, list[tuple[float, float]]] = {"bare": [], "gated": []}
                for name in ("bare", "gated", "gated", "bare"):
                    send = engine.bare if name == "bare" else engine.gated
                    answers = await closed_loop(send, _short_chat, clients, 0.0, self.form.layer_s)
                    ttft_s = median(one.ttft_s for one in answers if one.ttft_s is not None)
                    gap_s = median(gap for one in answers if (gap := one.inter_token_s) is not None)
                    found[name].append((ttft_s, gap_s))
                (bare_ttft_s, bare_gap_s), (ttft_s, gap_s) = (
                    tuple(sum(values) / len(values) for values in zip(*found[name], strict=True))
                    for name in ("bare", "gated")
                )
                self.results.layer.append(
                    {
                        "clients": clients,
                        "pace_ratio": bare_gap_s / gap_s,
                        "ttft_more_s": ttft_s - bare_ttft_s,
                        "bare_ttft_s": bare_ttft_s,
                        "bare_inter_token_s": bare_gap_s,
                    }
                )
        self.results.write()


def _short_chat(_: Random) -> Request:
    return Request(0.0, "normal", 64, 32)
