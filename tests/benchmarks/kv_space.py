"""N6, N7 and G6 on the real engine: seats that follow the KV space against fixed ones, where it is small.

Prompts of 64 tokens, answers of 128 on average with a coefficient of variation of 1, three clients for every two of
vLLM's seats, so that none is ever free. The arms play in turn, there and back, each for a while on the same engine.
Preemptions are vLLM's own count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from statistics import mean

from goal import Goal
from serving.arms import without_bounds
from serving.client import TINY, Answer, closed_loop, started
from serving.figures import mean_of

from headway_policies import Preset
from headway_policies.batching import Batching
from headway_simulator import lognormal
from headway_simulator.traffic.workload import Request

SEATS, MODEL_LEN, CLIENTS = 128, 1024, 192
KV_TOKENS = (3200, 6400)
FIXED = (32, 64, SEATS)
LEAD_S, LENGTH_S, ROUNDS = 6.0, 15.0, 2
_PROMPT_TOKENS, _OUTPUT = 64, lognormal(128, 1.0)
_PREEMPTIONS = "vllm:num_preemptions"


@dataclass(frozen=True, slots=True)
class Block:
    """One arm for a while: tokens a second, seconds from a first token to the last, preemptions a second."""

    tokens_per_s: float
    answer_s: float
    preemptions_per_s: float


def kv_space() -> Iterator[Goal]:
    """G6, N6, N7: seats that follow a small KV space against fixed ones, on the real engine"""
    for kv_tokens in KV_TOKENS:
        blocks = asyncio.run(_blocks(kv_tokens))
        aware, fixed = mean_of(blocks, "aware"), {seats: mean_of(blocks, f"{seats}") for seats in FIXED}
        best = max(FIXED, key=lambda seats: fixed[seats].tokens_per_s)
        kv, most = f"real engine, KV of {kv_tokens} tokens", fixed[SEATS]
        figure = f"{kv}: tokens/s, memory-aware : {SEATS} seats"
        yield Goal("G6", figure, 1.08, aware.tokens_per_s / most.tokens_per_s)
        note = f"{aware.preemptions_per_s:.2f} and {most.preemptions_per_s:.2f} a second"
        ratio = aware.preemptions_per_s / max(most.preemptions_per_s, 1e-9)
        yield Goal("G6", f"{kv}: preemptions, memory-aware : {SEATS} seats", 0.25, ratio, most=True, note=note)
        figure = f"{kv}: tokens/s, memory-aware : best of {'/'.join(map(str, FIXED))}"
        yield Goal("G6", figure, 0.98, aware.tokens_per_s / fixed[best].tokens_per_s, note=f"{best} seats")
        note = f"{aware.answer_s:.2f} s and {fixed[best].answer_s:.2f} s"
        ratio = aware.answer_s / fixed[best].answer_s
        yield Goal("N7", f"{kv}: first token to last, memory-aware : the same", 1.02, ratio, most=True, note=note)


def _arms() -> dict[str, Preset]:
    """Every fixed number, and the bound by KV space on the most of them."""
    free = {seats: without_bounds(Batching(seats=seats, window_ms=0)) for seats in FIXED}
    limit = free[SEATS].limit.model_copy(update={"memory_aware": True, "max_seats": SEATS})
    aware = free[SEATS].model_copy(update={"name": "aware", "limit": limit})
    return {**{f"{seats}": preset for seats, preset in free.items()}, "aware": aware}


async def _blocks(kv_tokens: int) -> list[tuple[str, Block]]:
    arms, found = _arms(), list[tuple[str, Block]]()
    async with started(TINY, arms[f"{SEATS}"], SEATS, MODEL_LEN, kv_tokens=kv_tokens) as engine:
        for number in range(ROUNDS):
            for name in list(arms) if number % 2 == 0 else list(arms)[::-1]:
                await engine.use(arms[name])
                before = _preemptions()
                answers = await closed_loop(engine.gated, _request, CLIENTS, LEAD_S, LENGTH_S)
                found.append((name, _block(answers, _preemptions() - before)))
    return found


def _block(answers: list[Answer], preemptions: float) -> Block:
    ended = [one for one in answers if one.end == "completed" and one.first_s is not None and one.last_s is not None]
    answer_s = mean(one.last_s - one.first_s for one in ended if one.first_s is not None and one.last_s is not None)
    served = sum(one.prompt_tokens + one.tokens for one in ended)
    return Block(served / LENGTH_S, answer_s, preemptions / (LEAD_S + LENGTH_S))


def _request(random: Random) -> Request:
    return Request(0.0, "normal", _PROMPT_TOKENS, _OUTPUT.sampler(random)())


def _preemptions() -> float:
    from prometheus_client import REGISTRY

    families = (family for family in REGISTRY.collect() if family.name == _PREEMPTIONS)
    return sum(sample.value for family in families for sample in family.samples if sample.name.endswith("_total"))
