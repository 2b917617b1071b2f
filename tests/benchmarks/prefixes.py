"""``make bench-prefixes``: what the order ``inside = "prefix"`` gives on the real engine.

--strict   exit code 1 on a miss that is not accepted
--write    put the table into deploy/site/docs/measured/index.md

SmolLM2-135M, about five minutes. 32 system prompts of 512 tokens, four to each of eight tenants, before short prompts
and short answers; the KV cache holds 8 requests of these. 64 clients, so that the queue is never empty; the orders in
turn, there and back. Which tokens were in the cache is vLLM's own count.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from accepted import NONE
from command import Goals, run
from goal import Goal
from serving.arms import without_bounds
from serving.client import Answer, closed_loop, started
from serving.figures import mean_of

from headway_policies.batching import Batching
from headway_policies.usage import jain
from headway_simulator.traffic.workload import Request

ROOT = Path(__file__).resolve().parents[2]
MODEL, PAGE = ROOT / ".models" / "SmolLM2-135M-Instruct", ROOT / "deploy/site/docs/measured/index.md"
SEATS, CLIENTS, LEAD_S, LENGTH_S = 8, 64, 10.0, 40.0
TENANTS, PREFIXES, PREFIX_TOKENS, HELD, OWN_TOKENS = 8, 32, 512, 8, 64
ORDERS = ("fifo", "fair", "prefix", "prefix", "fair", "fifo")


@dataclass(frozen=True, slots=True)
class Block:
    """One order for a while: tokens a second, the share of prompt tokens from the cache, and how even tenants fared."""

    tokens_per_s: float
    cached_ratio: float
    evenness: float


def prefixes() -> Iterator[Goal]:
    """G16: 32 system prompts of 512 tokens and a KV cache for 8 of them, on the real engine ..."""
    blocks = asyncio.run(_blocks())
    fifo, fair, prefix = (mean_of(blocks, inside) for inside in ("fifo", "fair", "prefix"))
    note = f"prompt tokens found in the cache: {fifo.cached_ratio:.2f} and {prefix.cached_ratio:.2f}"
    figure = "real engine, tokens/s, prefix : first come first served"
    yield Goal("G16", figure, 1.3, prefix.tokens_per_s / fifo.tokens_per_s, note=note)
    yield Goal("G16", "real engine, tokens/s, prefix : fair", 1.3, prefix.tokens_per_s / fair.tokens_per_s)
    yield Goal("G16", "real engine, Jain's index over the tokens of the tenants, prefix", 0.95, prefix.evenness)


async def _blocks() -> list[tuple[str, Block]]:
    batching = Batching(seats=SEATS, window_ms=0)
    found = []
    kv_tokens = HELD * (PREFIX_TOKENS + OWN_TOKENS)
    preset = without_bounds(batching)
    async with started(MODEL, preset, SEATS, 1024, kv_tokens=kv_tokens, keeps_prefixes=True) as engine:
        for inside in ORDERS:
            await engine.use(without_bounds(batching, inside))
            answers = await closed_loop(engine.gated, _prompted, CLIENTS, LEAD_S, LENGTH_S)
            found.append((inside, _judged([answer for answer in answers if answer.end == "completed"])))
    return found


def _prompted(random: Random) -> Request:
    """A short chat after one of the system prompts of its tenant."""
    tenant = random.randrange(TENANTS)
    each = PREFIXES // TENANTS
    prefix = 1 + tenant * each + random.randrange(each)
    prompt_tokens = PREFIX_TOKENS + random.randint(16, 32)
    return Request(0.0, "normal", prompt_tokens, random.randint(8, 24), None, f"t{tenant}", prefix, PREFIX_TOKENS)


def _judged(answers: list[Answer]) -> Block:
    served = Counter[str]()
    for answer in answers:
        served[answer.tenant] += answer.prompt_tokens + answer.tokens
    cached = sum(answer.cached_tokens for answer in answers) / sum(answer.prompt_tokens for answer in answers)
    return Block(served.total() / LENGTH_S, cached, jain(list(served.values())))


GOALS: Goals = {"prefixes": prefixes}

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], GOALS, NONE, PAGE, help_text=__doc__ or "", marks="prefixes"))
