"""The constants of the engine, measured at the start of a run: all loads and objectives are multiples of them.

A closed loop with 1, 2, 4, ... clients gives tokens a second and the time between tokens, prompts of several lengths
alone give the time to the first token. From the fit follow the objectives (first token within 33 steps, tokens within
2.5 times the time between them of one request alone) and the fluid ceiling of a workload.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from statistics import mean, median

from headway.simulator.engine_model.capacity import Slo
from headway.simulator.engine_model.engine import EngineModel
from headway.simulator.engine_model.fit import Point, line
from headway.simulator.traffic.workload import Request
from serving.client import Answer, Engine, closed_loop

CLIENTS = (1, 2, 4, 8, 16, 32, 64)
PROMPTS = (16, 128, 512)
_PROMPT_TOKENS, _OUTPUT_TOKENS = 16, 96
_STEPS, _TIMES = 33, 2.5
_SOME_TOKENS, _TRIES = 8, 5

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


async def measured(engine: Engine, length_s: float, say: Say) -> Constants:
    """Measure ``length_s`` at each level, past Headway."""
    levels = []
    for clients in CLIENTS:
        say(f"constants: {clients} at once")
        levels.append(await _measured_level(engine, clients, length_s))
    say("constants: the first token")
    first = [await _first_token(engine, tokens) for tokens in PROMPTS]
    base_s, seat_s = line([Point(one.clients, one.inter_token_s) for one in levels], "two or more concurrencies")
    _, prefill_s = line(first, "prompts of two or more lengths")
    model = EngineModel(base_s, seat_s, prefill_s, max_num_seqs=engine.seats)
    alone_s = base_s + seat_s
    return Constants(model, Slo(_STEPS * alone_s, _TIMES * alone_s), tuple(levels))


def _chat(random: Random) -> Request:
    return Request(0.0, "normal", _PROMPT_TOKENS, random.randint(_OUTPUT_TOKENS // 2, 3 * _OUTPUT_TOKENS // 2))


async def _measured_level(engine: Engine, clients: int, length_s: float) -> Level:
    """Twice as long each time, until a request has had some tokens: a slow engine first computes all the prompts."""
    for _ in range(_TRIES):
        answers = await closed_loop(engine.bare, _chat, clients, 0.0, length_s)
        if sum(one.tokens for one in answers) >= _SOME_TOKENS * clients:
            break
        length_s *= 2
    return _level(clients, answers)


def _level(clients: int, answers: list[Answer]) -> Level:
    gaps_s = [gap_s for one in answers if (gap_s := one.inter_token_s) is not None]
    return Level(clients, clients / mean(gaps_s), mean(gaps_s))


async def _first_token(engine: Engine, prompt_tokens: int) -> Point:
    """Alone, three times, after one that is not counted."""
    times_s = []
    for _ in range(4):
        answer = Answer("normal", "", prompt_tokens, asyncio.get_running_loop().time())
        await engine.bare(Request(0.0, "normal", prompt_tokens, 2), answer)
        times_s.append(answer.ttft_s or 0.0)
    return Point(prompt_tokens, median(times_s[1:]))
