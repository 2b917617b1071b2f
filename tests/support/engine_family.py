"""Engines to judge a policy on: a family of usual ones, and others drawn at random.

The constants are those of a step: so many milliseconds, more for each running sequence, more for each prompt token, and
for every second one drawn also more while its KV cache is full: up to four times as long as without.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log
from random import Random

from headway_simulator import EngineModel, Slo

#: Objectives by which every policy is judged: multiples of what the engine needs for one sequence.
FIRST_TOKEN_STEPS, LEAST_FIRST_TOKEN_S, PACES = 30, 0.3, 2.5


def engine(
    step_ms: float,
    sequence_ms: float,
    prompt_token_ms: float,
    seats: int = 256,
    kv_tokens: int = 500_000,
    context_ms: float = 0.0,
) -> EngineModel:
    """An engine with these costs."""
    return EngineModel(
        base_s=step_ms / 1000,
        seat_s=sequence_ms / 1000,
        prefill_s=prompt_token_ms / 1000,
        max_num_seqs=seats,
        kv_tokens=kv_tokens,
        context_s=context_ms / 1000,
    )


FAMILY: Mapping[str, EngineModel] = {
    "CPU, float32": engine(137, 8.4, 6.15, 128, 131_072),
    "slow CPU": engine(40, 4.0, 1.5),
    "two cores": engine(29, 1.06, 0.7),
    "L4, 8B": engine(53, 0.15, 0.25),
    "A100, 8B": engine(12, 0.06, 0.08),
    "H100, 8B": engine(6.5, 0.03, 0.04),
    "4 x H100, 70B": engine(16, 0.05, 0.1),
    "H100, 1B": engine(3, 0.01, 0.008),
}


def drawn(seed: int) -> EngineModel:
    """An engine whose constants, KV space and most sequences are drawn log-uniformly; the same seed, the same one."""
    source = Random(seed)

    def between(least: float, most: float) -> float:
        return exp(source.uniform(log(least), log(most)))

    step_ms, sequence_ms, prompt_token_ms = between(2, 80), between(0.005, 5), between(0.005, 3)
    seats, kv_tokens = int(between(64, 1024)), int(between(4_000, 2_000_000))
    context_ms = 0.0 if seed % 2 else step_ms * between(0.1, 4)
    return engine(step_ms, sequence_ms, prompt_token_ms, seats, kv_tokens, context_ms)


def objectives(model: EngineModel) -> Slo:
    """First token within 30 steps, at least 0.3 s; 2.5 times the pace of one sequence between tokens."""
    step_s = model.step_s(1)
    return Slo(max(LEAST_FIRST_TOKEN_S, FIRST_TOKEN_STEPS * step_s), PACES * step_s)
