"""The run: measures the constants, plays every block, and writes each into the results as it ends.

In each round all arms play one after another with the same arrivals, forwards in one round and backwards in the next,
so that a slow drift of the machine meets all of them. A block that was disturbed is played again, once; the less
disturbed one of the two is kept.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path

from headway.simulator.traffic.trace import Trace
from headway_policies import bundled_presets
from serving import velocity
from serving.arms import Arm, all_arms, best_seats
from serving.arrivals import TRACE, Arrivals, arrivals, lengths_of, recorded, shortened, workload_of
from serving.client import Engine, open_loop, started
from serving.constants import Constants, measured
from serving.figures import BlockFigures, judged
from serving.form import Form, Part
from serving.layer import layer_cost
from serving.quiet import MAX_OTHERS, MAX_SLOWER, Times, others_share, spin_s
from serving.results import Key, Results

_AT_ONCE = (1, 16)  # clients, where the cost of the layer is measured
_SETTLE_S = 2.0  # until the engine has dropped what was cut
SEATS = 128  # vLLM's own default for a server on the CPU


#: Called with what is done, and the share of the run that is done, 0 to 1.
Progress = Callable[[str, float], None]


class Run:
    """One run on one model; ``results`` may hold what an earlier one has measured.

    Without a trace its part is left out, and without VelocityLLM its arm.
    """

    def __init__(self, model: Path, form: Form, results: Results, show: Progress, trace: Trace | None = None) -> None:
        self.model, self.form, self.results, self.show = model, form, results, show
        self._trace = None if trace is None else shortened(trace)
        self._fastest_s = min(spin_s() for _ in range(5))

    async def play(self) -> None:
        """All that the results lack."""
        results = self.results
        async with AsyncExitStack() as stack:
            engine = await stack.enter_async_context(started(self.model, bundled_presets()["throughput"], SEATS))
            if results.constants is None:
                results.constants = await measured(engine, self.form.level_s, lambda words: self.show(words, 0.0))
                results.write()
            form = self.form = self.form.on(results.constants.model.base_s + results.constants.model.seat_s)
            results.form = asdict(form)
            small = await self._small(stack, results.constants)
            if len(results.layer) < form.layer_rounds * len(_AT_ONCE):
                await self._layer(engine)
            parts = [one for one in form.parts if one.workload != TRACE or self._trace is not None]
            todo = [(part, load, number) for part in parts for load in part.loads for number in range(form.rounds)]
            for done, (part, load, number) in enumerate(todo):
                await self._round(engine, small, part, load, number, (done / len(todo), 1 / len(todo)))

    async def _small(self, stack: AsyncExitStack, constants: Constants) -> Engine | None:
        """A second engine, with as many seats as are best: what ``--max-num-seqs`` would be set to."""
        if not any("priority" in one.arms for one in self.form.parts):
            return None
        seats = best_seats(workload_of("W1", 1.0, self.form.count_s), constants.model, constants.slo)
        return await stack.enter_async_context(started(self.model, bundled_presets()["throughput"], seats))

    async def _round(
        self,
        engine: Engine,
        small: Engine | None,
        part: Part,
        load: float,
        number: int,
        share: tuple[float, float],
    ) -> None:
        """One block of each arm; ``share`` is how much of the run is done before, and how much this round is."""
        constants, form = self.results.constants, self.form
        assert constants is not None
        model, slo = constants.model, constants.slo
        trace = self._trace if part.workload == TRACE else None
        workload = workload_of(part.workload, load, form.count_s) if trace is None else lengths_of(trace)
        arms = all_arms(workload, model, slo, part.grid)
        names = [*part.arms, *(name for name in arms if name.startswith("cap-x"))]
        if not velocity.installed():
            names = [name for name in names if name != "velocity"]
        self.results.arms.setdefault(part.workload, {}).update({name: arms[name].words for name in names})
        block = (
            arrivals(workload, load, number, form.block_s, model=model, slo=slo)
            if trace is None
            else recorded(trace, load, number, form.block_s, model=model, slo=slo)
        )
        todo = [name for name in names if Key(part.workload, load, name, number) not in self.results.blocks]
        for place, name in enumerate(todo if number % 2 == 0 else todo[::-1]):
            words, done = f"{part.workload} at {load:g}, round {number + 1}: {name}", place / len(todo)
            self.show(words, share[0] + share[1] * done)
            figures = await self._block(arms[name], engine, small, block)
            if figures.disturbed:
                self.show(f"{words}, again", share[0] + share[1] * done)
                again = await self._block(arms[name], engine, small, block)
                figures = min(figures, again, key=lambda one: one.disturbed)
            self.results.blocks[Key(part.workload, load, name, number)] = figures
            self.results.write()

    async def _block(self, arm: Arm, engine: Engine, small: Engine | None, block: Arrivals) -> BlockFigures:
        """One arm under these arrivals, and how much it was disturbed: 0 where it was not."""
        constants, form = self.results.constants, self.form
        assert constants is not None
        on = small if arm.own_seats and small is not None else engine
        on.cap(arm.cap)
        await on.use(arm.preset_on(on.seats))
        slower, before = min(spin_s() for _ in range(3)), Times.now()
        began_s, client_s = asyncio.get_running_loop().time(), time.process_time()
        try:
            answers = await open_loop(arm.send(on), block.requests, form.block_s)
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
            ceiling_per_s=block.ceiling_per_s,
            client_s=client_s,
            disturbed=max(others, slower - 1) if others > MAX_OTHERS or slower > MAX_SLOWER else 0.0,
        )

    async def _layer(self, engine: Engine) -> None:
        """What the layer costs, several rounds of it."""
        await engine.use(bundled_presets()["throughput"])
        self.results.layer = []
        for number in range(self.form.layer_rounds):
            for clients in _AT_ONCE:
                self.show(f"the layer's cost, {clients} at once, round {number + 1}", 0.0)
                self.results.layer.append(await layer_cost(engine, clients, self.form.layer_s))
        self.results.write()
