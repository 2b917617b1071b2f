"""``make bench-forecasts``: what a server forecasts of its presets, and what then happens, on the real engine.

--strict   exit code 1 where an error is larger than its goal
--write    put the tables into deploy/site/docs/measured/index.md
--only     errors, or cost

SmolLM2-135M, about a quarter of an hour. At each load the server runs under ``balanced`` for a minute, forecasts the
three presets of the mission from what it has seen, and then runs each of them under the same arrivals again: what then
differs is the error of the model, not the chance of another minute's traffic. No constant is measured for a forecast:
the model of the engine is what the server fits from its own steps.

At last 16 clients in a closed loop fill the engine, with one forecast after another beside them and without, in turn:
what the process that computes them costs the requests.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import mean, median

from accepted import FORECASTS
from goal import Goal
from report import Line, as_markdown, judged, put_into, summary, table
from serving.arrivals import arrivals, workload_of
from serving.client import Answer, Engine, closed_loop, open_loop, started
from serving.constants import Constants, measured
from serving.figures import quantiles

from headway.api.schema import PresetForecast
from headway_policies import bundled_presets
from headway_simulator import Request
from headway_tools.console import Bar

ROOT = Path(__file__).resolve().parents[2]
MODEL, PAGE = ROOT / ".models" / "SmolLM2-135M-Instruct", ROOT / "deploy/site/docs/measured/index.md"
SEATS, LEVEL_S = 128, 3.0
LOADS, PRESETS, BEFORE = (0.5, 0.9, 1.3), ("latency", "balanced", "throughput"), "balanced"
SEEN_S, LEAD_S, COUNT_S, TAIL_S = 60.0, 10.0, 50.0, 10.0
_SAMPLE_S = 0.05
#: The figures, the largest median error that is a success, and how they are written.
FIGURES = (
    ("tokens/s", 0.15, ".0f"), ("mean batch", 0.15, ".1f"), ("first token p50, s", 0.15, ".2f"),
    ("first token p95, s", 0.30, ".2f"),
)  # fmt: skip


#: With a forecast beside the requests, and without; the clients, and the seconds of a block.
COST_ARMS, COST_CLIENTS, COST_LEAD_S, COST_S = (True, False, False, True) * 2, 16, 3.0, 12.0
LEAST_PACE = 0.97


@dataclass(frozen=True, slots=True)
class Pair:
    """One preset at one load: each of ``FIGURES`` as it was forecast, and as it came; None where there was none."""

    load: float
    preset: str
    forecast: Sequence[float | None]
    came: Sequence[float | None]

    def errors(self) -> list[float | None]:
        """|forecast - came| / came of each figure."""
        return [
            None if one is None or not other else abs(one - other) / other
            for one, other in zip(self.forecast, self.came, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Block:
    """A block of the closed loop: whether forecasts were computed beside it, and tokens a second."""

    forecast: bool
    tokens_per_s: float


async def pairs(show: Bar) -> list[Pair]:
    """Every preset at every load."""
    found = list[Pair]()
    async with started(MODEL, bundled_presets()[BEFORE], SEATS) as engine:
        constants = await measured(engine, LEVEL_S, lambda words: show.show(words, 0.0))
        for place, load in enumerate(LOADS):
            show.show(f"load {load:g}", place / len(LOADS))
            await engine.use(bundled_presets()[BEFORE])
            await _played(engine, constants, load, SEEN_S)
            forecasts = (await engine.forecast(PRESETS, SEEN_S)).presets
            for number, forecast in enumerate(forecasts):
                show.show(f"load {load:g}, {forecast.name}", (place + (1 + number) / (1 + len(PRESETS))) / len(LOADS))
                await engine.use(bundled_presets()[forecast.name])
                came = await _came(engine, constants, load)
                found.append(Pair(load, forecast.name, _figures(forecast), came))
    return found


async def blocks(show: Bar) -> list[Block]:
    """The closed loop with a forecast beside it and without, after one that the forecasts are of."""
    async with started(MODEL, bundled_presets()[BEFORE], SEATS) as engine:
        await closed_loop(engine.gated, _chat, COST_CLIENTS, 0.0, SEEN_S / 2)
        found = list[Block]()
        for number, forecast in enumerate(COST_ARMS):
            show.show("what a forecast costs", number / len(COST_ARMS))
            found.append(await _block(engine, forecast))
    return found


async def _block(engine: Engine, forecast: bool) -> Block:
    """The pace of a closed loop, with one forecast after another beside it or none."""

    async def forecasts() -> None:
        while True:
            await engine.forecast(PRESETS, SEEN_S)

    task = asyncio.create_task(forecasts()) if forecast else None
    now_s = asyncio.get_running_loop().time
    from_s = now_s() + COST_LEAD_S
    answers = await closed_loop(engine.gated, _chat, COST_CLIENTS, COST_LEAD_S, COST_S)
    if task is not None:
        assert not task.done(), "no forecast was computed"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return Block(forecast, _tokens(answers, from_s, from_s + COST_S) / COST_S)


def _chat(random: Random) -> Request:
    return Request(0.0, "normal", 32, random.randint(32, 96))


async def _played(engine: Engine, constants: Constants, load: float, length_s: float) -> list[Answer]:
    model, slo = constants.model, constants.slo
    block = arrivals(workload_of("W1", load, length_s), load, 0, length_s, model=model, slo=slo)
    return await open_loop(engine.gated, block.requests, length_s)


async def _came(engine: Engine, constants: Constants, load: float) -> list[float | None]:
    """The figures of a minute, after some seconds that fill the engine."""
    running = list[int]()

    async def sample() -> None:
        await asyncio.sleep(LEAD_S)
        while True:
            running.append(engine.running())
            await asyncio.sleep(_SAMPLE_S)

    began_s, task = asyncio.get_running_loop().time(), asyncio.create_task(sample())
    answers = await _played(engine, constants, load, LEAD_S + COUNT_S + TAIL_S)
    task.cancel()
    from_s, to_s = began_s + LEAD_S, began_s + LEAD_S + COUNT_S
    due = [answer for answer in answers if from_s <= answer.sent_s < to_s]
    p50_s, p95_s, _ = quantiles(one.ttft_s for one in due if one.ttft_s is not None)
    busy = [one for one in running[: int(COUNT_S / _SAMPLE_S)] if one]
    return [_tokens(answers, from_s, to_s) / COUNT_S, mean(busy) if busy else 0.0, p50_s, p95_s]


def _tokens(answers: Sequence[Answer], from_s: float, to_s: float) -> float:
    """The tokens of this time: those of an answer came evenly."""
    total = 0.0
    for answer in answers:
        if answer.first_s is not None and answer.last_s is not None:
            inside_s = min(answer.last_s, to_s) - max(answer.first_s, from_s)
            total += answer.tokens * min(1.0, max(0.0, inside_s / max(answer.last_s - answer.first_s, 1e-9)))
    return total


def _figures(one: PresetForecast) -> list[float | None]:
    ttft = one.all.ttft_s
    values = (one.tokens_per_s, one.mean_batch, ttft.p50, ttft.p95)
    return [None if interval is None else interval.value for interval in values]


def error_goals(found: Sequence[Pair]) -> Iterator[Goal]:
    """G17: the median of the errors of each figure."""
    for place, (name, most, _) in enumerate(FIGURES):
        errors = [error for pair in found if (error := pair.errors()[place]) is not None]
        note = f"{min(errors):.2f} to {max(errors):.2f}"
        yield Goal("G17", f"median error of the forecast, {name}", most, median(errors), most=True, note=note)


def cost_goal(found: Sequence[Block]) -> Goal:
    """The pace of the requests beside a forecast."""
    with_it = [one.tokens_per_s for one in found if one.forecast]
    without = [one.tokens_per_s for one in found if not one.forecast]
    ratios = [one / other for one, other in zip(with_it, without, strict=True)]
    note = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return Goal("F", "tokens/s beside one forecast after another : without", LEAST_PACE, median(ratios), note=note)


def as_table(found: Sequence[Pair]) -> str:
    """Forecast -> what came, a row for each preset at each load."""
    rows = [
        [
            f"{pair.load:g}",
            f"`{pair.preset}`",
            *(
                f"{_text(one, form)} → {_text(other, form)}"
                for one, other, (_, _, form) in zip(pair.forecast, pair.came, FIGURES, strict=True)
            ),
        ]
        for pair in found
    ]
    return table(["load", "preset", *(name for name, *_ in FIGURES)], rows)


def _text(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def main(words: list[str]) -> int:
    """0; with ``--strict`` 1 where an error is larger than its goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("errors", "cost"), help="how true forecasts are, or what one costs")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args(words)
    lines, texts = list[Line](), dict[str, str]()
    with Bar(sys.stderr) as bar:
        if chosen.only != "cost":
            found = asyncio.run(pairs(bar))
            lines += [judged(goal, FORECASTS) for goal in error_goals(found)]
            texts["forecasts"] = f"{as_table(found)}\n\n{as_markdown(lines)}"
        if chosen.only != "errors":
            lines.append(judged(cost_goal(asyncio.run(blocks(bar))), FORECASTS))
            texts["forecast cost"] = as_markdown(lines[-1:])
    print(*texts.values(), "\n".join(summary(lines, FORECASTS)), sep="\n\n")
    if chosen.write:
        for name, text in texts.items():
            PAGE.write_text(put_into(PAGE.read_text(encoding="utf-8"), text, name), encoding="utf-8")
    return int(chosen.strict and any(line.fails for line in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
