"""The run: measures the constants, plays every block, and writes each into the results as it ends.

In each round all arms play one after another with the same arrivals, forwards in one round and backwards in the next,
so that a slow drift of the machine meets all of them. A block that was disturbed is played again, once, unless the run
says otherwise; the less disturbed one of the two is kept.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

from headway_policies import bundled_presets
from headway_simulator.traffic.trace import Trace
from headway_simulator.traffic.workload import Workload
from serving import fixed_steps, velocity
from serving.arms import Arm, all_arms, best_seats, seated
from serving.arrivals import TRACE, Arrivals, arrivals, by_length, lengths_of, recorded, shortened, workload_of
from serving.client import Engine, open_loop, started
from serving.constants import Constants, measured, slower_now
from serving.figures import BlockFigures, judged
from serving.form import LONG_PROMPTS, SPINNING, Form, Part
from serving.layer import layer_cost
from serving.quiet import MAX_OTHERS, MAX_SLOWER, Times, others_share, spin_s
from serving.results import BESIDE, Key, Results
from serving.spinning import beside, repeated, spells
from serving.streams import STREAM_TOKENS, beside_prompts, chat_tokens_per_s

_AT_ONCE = (1, 16)  # clients, where the cost of the layer is measured
_SETTLE_S = 2.0  # after the last request has left the engine
_PROMPTS, _ALONE_S = 3, 3.0  # of a block of streams, the first of them not counted; and the pauses beside them
_OF_STREAM = 0.15  # the most that a pause takes of a stream: that of a fast engine ends before its block otherwise
_CHAT_TURNS = ("plain", "steps", "steps", "plain")
_LEARN_S = 30.0  # of load, where an engine is to find what another one learnt and there is nothing yet
SEATS = 128  # vLLM's own default for a server on the CPU


#: Called with what is done, and the share of the run that is done, 0 to 1.
Progress = Callable[[str, float], None]


class Run:
    """One run on one model; ``results`` may hold what an earlier one has measured.

    Without a trace its part is left out, and without VelocityLLM its arm.
    """

    def __init__(
        self,
        model: Path,
        form: Form,
        results: Results,
        show: Progress,
        trace: Trace | None = None,
        *,
        again: bool = True,
    ) -> None:
        self.model, self.form, self.results, self.show = model, form, results, show
        self._again = again  # what was disturbed
        self._trace = None if trace is None else shortened(trace)
        self._fastest_s = min(spin_s() for _ in range(5))
        self._engines: dict[str, Engine] = {}
        self._slower: float | None = None  # than at the start, after the last block
        self._learnt = ""  # the folder of what the engines that are started for a block learn

    async def play(self) -> None:
        """All that the results lack."""
        results = self.results
        async with AsyncExitStack() as stack:
            self._learnt = stack.enter_context(TemporaryDirectory())
            if self.form.beside:
                fixed_steps.install(Path(stack.enter_context(TemporaryDirectory())))
            engine = await stack.enter_async_context(started(self.model, bundled_presets()["throughput"], SEATS))
            self._engines["usual"] = engine
            if results.constants is None:
                results.constants = await measured(engine, self.form.level_s, lambda words: self.show(words, 0.0))
                results.write()
            form = self.form = self.form.on(*_pace(results.constants))
            results.form = asdict(form)
            await self._small(stack, results.constants)
            if len(results.layer) < form.layer_rounds * len(_AT_ONCE):
                await self._layer(engine)
            if form.beside and not results.beside:
                await self._beside(engine, results.constants)
            parts = [one for one in form.parts if one.workload != TRACE or self._trace is not None]
            todo = [(part, load, number) for part in parts for load in part.loads for number in range(form.rounds)]
            for done, (part, load, number) in enumerate(todo):
                await self._round(part, load, number, (done / len(todo), 1 / len(todo)))

    async def _small(self, stack: AsyncExitStack, constants: Constants) -> None:
        """A second engine, with as many seats as are best: what ``--max-num-seqs`` would be set to."""
        if any("priority" in one.arms for one in self.form.parts):
            seats = best_seats(workload_of("W1", 1.0, self.form.span.count_s), constants.model, constants.slo)
            small = started(self.model, bundled_presets()["throughput"], seats)
            self._engines["small"] = await stack.enter_async_context(small)

    async def _round(self, part: Part, load: float, number: int, share: tuple[float, float]) -> None:
        """One block of each arm; ``share`` is how much of the run is done before, and how much this round is."""
        constants, span = self.results.constants, self.form.span_of(part)
        assert constants is not None
        model, slo = constants.model, constants.slo
        trace = self._trace if part.workload == TRACE else None
        workload = workload_of(part.workload, load, span.count_s) if trace is None else lengths_of(trace)
        arms = all_arms(workload, model, slo, part.grid)
        names = [*part.arms, *(name for name in arms if name.startswith("cap-x"))]
        if not velocity.installed():
            names = [name for name in names if name != "velocity"]
        spelled = list(spells(part.workload, span))
        for spell in spelled:
            self.results.arms.setdefault(spell, {}).update({name: arms[name].words for name in names})
        block = (
            arrivals(workload, load, number, span.block_s, model=model, slo=slo)
            if trace is None
            else recorded(trace, load, number, span.block_s, model=model, slo=slo)
        )
        if part.workload == SPINNING:
            block = replace(block, requests=repeated(block.requests, span))
        todo = [name for name in names if Key(spelled[0], load, name, number) not in self.results.blocks]
        for place, name in enumerate(todo if number % 2 == 0 else todo[::-1]):
            words, done = f"{part.workload} at {load:g}, round {number + 1}: {name}", place / len(todo)
            self.show(words, share[0] + share[1] * done)
            figures = await self._block(part, name, workload, block)
            if self._again and any(one.disturbed for one in figures.values()):
                self.show(f"{words}, again", share[0] + share[1] * done)
                again = await self._block(part, name, workload, block)
                figures = min(figures, again, key=lambda found: max(one.disturbed for one in found.values()))
            self.results.blocks |= {Key(spell, load, name, number): one for spell, one in figures.items()}
            self.results.write()

    async def _block(self, part: Part, name: str, workload: Workload, block: Arrivals) -> dict[str, BlockFigures]:
        """One arm under these arrivals, each spell that is counted by its name, and how much it was disturbed: 0 where
        it was not. The objectives are those of the engine's mean pace before and after it.
        """
        at_start, span, played = self.results.constants, self.form.span_of(part), part.workload
        assert at_start is not None
        slower_before = self._slower or await slower_now(self._engines["usual"], at_start, self.form.level_s)
        constants = at_start.slower_by(slower_before)
        arm = all_arms(workload, constants.model, constants.slo, part.grid)[name]
        async with self._engine_of(arm, block) as engine:
            if arm.engine not in self._engines:  # it took minutes to start
                slower_before = await slower_now(self._engines["usual"], at_start, self.form.level_s)
            slower, before = min(spin_s() for _ in range(3)), Times.now()
            began_s, client_s = asyncio.get_running_loop().time(), time.process_time()
            async with beside(played, span):
                answers = await open_loop(arm.send(engine), block.requests, span.block_s)
            client_s, after = time.process_time() - client_s, Times.now()
            await engine.idle()
            await asyncio.sleep(_SETTLE_S)
        slower /= self._fastest_s
        self._slower = await slower_now(self._engines["usual"], at_start, self.form.level_s)
        engine_slower = (slower_before + self._slower) / 2
        if played == LONG_PROMPTS:
            by_length(answers)
        others = 0.0 if played == SPINNING else others_share(before, after)
        return {
            spell: judged(
                answers,
                at_start.slower_by(engine_slower).slo,
                count_s=(began_s + from_s, began_s + to_s),
                ceiling_per_s=block.ceiling_per_s,
                client_s=client_s,
                disturbed=max(others, slower - 1) if others > MAX_OTHERS or slower > MAX_SLOWER else 0.0,
                pace=engine_slower,
            )
            for spell, (from_s, to_s) in spells(played, span).items()
        }

    @asynccontextmanager
    async def _engine_of(self, arm: Arm, block: Arrivals | None = None) -> AsyncIterator[Engine]:
        """The engine that an arm runs on, its preset, cap and fixed steps in force; one is started for the block where
        the arm says so.
        """
        if arm.engine in self._engines:
            engine = self._engines[arm.engine]
            if self.form.beside:  # before the preset: vLLM's own settings switch the step policy off
                await engine.fix_steps(arm.budget, arm.threshold)
            await engine.use(arm.preset_on(engine.seats))
            engine.cap(arm.cap)
            try:
                yield engine
            finally:
                engine.cap(None)
            return
        assert block is not None
        if arm.engine == "unlearnt":
            _clear(self._learnt)
        elif not os.listdir(self._learnt):
            async with self._engine_of(replace(arm, engine="unlearnt"), block) as engine:
                await open_loop(arm.send(engine), block.requests, _LEARN_S)
        async with started(self.model, arm.preset_on(SEATS), SEATS, learnt=self._learnt) as engine:
            yield engine

    async def _beside(self, engine: Engine, constants: Constants) -> None:
        """Streams beside long prompts under each arm, and plain chat there and back."""
        found = all_arms(workload_of(LONG_PROMPTS, 1.0, 1.0), constants.model, constants.slo, ())
        pause_s = min(_ALONE_S, _OF_STREAM * STREAM_TOKENS * _pace(constants)[0])
        results, arms = self.results, {name: seated(arm) for name, arm in found.items()}
        results.arms[BESIDE] = {name: arms[name].words for name in self.form.beside}
        for name in self.form.beside:
            self.show(f"streams beside long prompts: {name}", 0.0)
            async with self._engine_of(arms[name]):
                before = engine.step_figures()
                block = await beside_prompts(name, arms[name].send(engine), _PROMPTS, pause_s)
                await engine.idle()
                steps = engine.step_figures().since(before)
            planned = replace(block, planned=steps.steps, pressed=steps.pressed, share=steps.prefill_share)
            results.beside.append(planned)
            results.write()
        results.chat = []
        for name in _CHAT_TURNS:
            self.show(f"plain chat: {name}", 0.0)
            async with self._engine_of(arms[name]):
                per_s = await chat_tokens_per_s(arms[name].send(engine), self.form.layer_s)
                results.chat.append((name, per_s))
                await engine.idle()
        results.write()

    async def _layer(self, engine: Engine) -> None:
        """What the layer costs, several rounds of it."""
        await engine.use(bundled_presets()["throughput"])
        self.results.layer = []
        for number in range(self.form.layer_rounds):
            for clients in _AT_ONCE:
                self.show(f"the layer's cost, {clients} at once, round {number + 1}", 0.0)
                self.results.layer.append(await layer_cost(engine, clients, self.form.layer_s))
        self.results.write()


def _pace(constants: Constants) -> tuple[float, float]:
    """The seconds of a token alone, and the requests of W1 that could be served in a second."""
    model = constants.model
    return model.base_s + model.seat_s, mean(workload_of("W1", 1.0, 1.0).rates_per_s(model, constants.slo, 1.0))


def _clear(folder: str) -> None:
    for one in Path(folder).iterdir():
        one.unlink()
