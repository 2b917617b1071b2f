"""The constants of the engine, measured at the start of a run: all loads and objectives are multiples of them.

A closed loop with 1, 2, 4, ... clients gives tokens a second and the time between tokens, prompts of several lengths
alone give the time to the first token. The objectives are multiples of the pace of one request alone: tokens within 2.5
times the time between them, the first one within 30 such times and at least 0.3 s. From them and from the fit follows
the fluid ceiling of a workload.

Those requests are short, and their prompts are computed apart. On some processors longer contexts, and prompts computed
in between, cost far more: so as many requests of W1 as the ceiling allows run at last, and the costs of a sequence and
of a prompt token are scaled to the time between tokens that is found there.

A machine changes its speed by a tenth within a quarter of an hour, and some presets keep multiples of the pace as it
is, while a cap keeps the number that was best at the start. So the pace of one request alone is measured again between
the blocks, and a block is judged by the objectives that follow from the mean of before and after it, whatever its arm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from statistics import mean, median

from headway_simulator.engine_model.capacity import Slo, ceiling
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.traffic.workload import WORKLOADS, Request
from serving.client import Answer, Engine, closed_loop
from serving.line import Point, line

CLIENTS = (1, 2, 4, 8, 16, 32, 64)
PROMPTS = (16, 128, 512)
_PROMPT_TOKENS, _OUTPUT_TOKENS = 16, 96
_STEPS, _LEAST_S, _TIMES = 30, 0.3, 2.5
_SOME_TOKENS, _TRIES = 8, 5
_PHASE = WORKLOADS["W1"].phases[0]
#: Of W1, in lengths of a level: until most of the first requests have ended, and then measured.
_LEAD_LEVELS, _COUNT_LEVELS = 3.0, 4.0
_LEAST_FACTOR, _MOST_FACTOR = 0.5, 4.0

#: Called with what is being measured.
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Level:
    """So many requests at once: tokens a second, and the mean time between the tokens of one of them."""

    clients: int
    tokens_per_s: float
    inter_token_s: float


@dataclass(frozen=True, slots=True)
class Constants:
    """The engine's constants, the objectives that follow from them, and the levels they were fitted on."""

    model: EngineModel
    slo: Slo
    levels: tuple[Level, ...]

    def slower_by(self, factor: float) -> Constants:
        """The same for an engine each of whose steps takes ``factor`` times as long."""
        model, alone_s = self.model, factor * self.levels[0].inter_token_s
        scaled = replace(
            model, base_s=factor * model.base_s, seat_s=factor * model.seat_s, prefill_s=factor * model.prefill_s
        )
        return replace(self, model=scaled, slo=objectives(alone_s))


async def measured(engine: Engine, length_s: float, say: Say) -> Constants:
    """Measure ``length_s`` at each level, past Headway."""
    levels = []
    for clients in CLIENTS:
        say(f"constants: {clients} at once")
        levels.append(await _measured_level(engine, clients, length_s))
    say("constants: the first token")
    first = [await _first_token(engine, tokens) for tokens in PROMPTS]
    base_s, seat_s = line([Point(level.clients, level.inter_token_s) for level in levels], "two or more concurrencies")
    _, prefill_s = line(first, "prompts of two or more lengths")
    model = EngineModel(base_s, seat_s, prefill_s, max_num_seqs=engine.seats)
    slo = objectives(levels[0].inter_token_s)
    seats = ceiling(model, _PHASE.prompt.mean_tokens, _PHASE.output.mean_tokens, slo).seats
    say(f"constants: W1, {seats} at once")
    return Constants(await _as_served(engine, model, seats, length_s), slo, tuple(levels))


async def slower_now(engine: Engine, constants: Constants, length_s: float) -> float:
    """The time between the tokens of one request alone, past Headway, as a multiple of what it was at the start."""
    return (await _measured_level(engine, 1, length_s)).inter_token_s / constants.levels[0].inter_token_s


def objectives(alone_s: float) -> Slo:
    """The objectives of a run, by the time between the tokens of one request alone."""
    return Slo(max(_LEAST_S, _STEPS * alone_s), _TIMES * alone_s)


async def _as_served(engine: Engine, model: EngineModel, seats: int, length_s: float) -> EngineModel:
    """The model with the costs that so many requests of W1 have together."""
    lead_s, counted_s = _LEAD_LEVELS * length_s, _COUNT_LEVELS * length_s
    answers = await closed_loop(engine.bare, _w1, seats, lead_s, counted_s)
    spans = [span for answer in answers if (span := answer.after_lead()) is not None]
    step_s = sum(span_s for span_s, _ in spans) / max(1, sum(tokens for _, tokens in spans))
    prompts = sum(answer.prompt_tokens for answer in answers if answer.first_s is not None and not answer.lead_tokens)
    expected_s = model.step_s(seats, round(prompts * step_s / counted_s)) - model.base_s
    factor = min(max((step_s - model.base_s) / expected_s, _LEAST_FACTOR), _MOST_FACTOR) if spans else 1.0
    return replace(model, seat_s=factor * model.seat_s, prefill_s=factor * model.prefill_s)


def _w1(random: Random) -> Request:
    return Request(0.0, "normal", _PHASE.prompt.sampler(random)(), _PHASE.output.sampler(random)())


def _chat(random: Random) -> Request:
    return Request(0.0, "normal", _PROMPT_TOKENS, random.randint(_OUTPUT_TOKENS // 2, 3 * _OUTPUT_TOKENS // 2))


async def _measured_level(engine: Engine, clients: int, length_s: float) -> Level:
    """Twice as long each time, until a request has had some tokens: a slow engine first computes all the prompts."""
    for _ in range(_TRIES):
        answers = await closed_loop(engine.bare, _chat, clients, 0.0, length_s)
        if sum(answer.tokens for answer in answers) >= _SOME_TOKENS * clients:
            break
        length_s *= 2
    return _level(clients, answers)


def _level(clients: int, answers: list[Answer]) -> Level:
    gaps_s = [gap_s for answer in answers if (gap_s := answer.inter_token_s) is not None]
    return Level(clients, clients / mean(gaps_s), mean(gaps_s))


async def _first_token(engine: Engine, prompt_tokens: int) -> Point:
    """Alone, three times, after one that is not counted."""
    times_s = []
    for _ in range(4):
        answer = Answer("normal", "", prompt_tokens, asyncio.get_running_loop().time())
        await engine.bare(Request(0.0, "normal", prompt_tokens, 2), answer)
        times_s.append(answer.ttft_s or 0.0)
    return Point(prompt_tokens, median(times_s[1:]))
