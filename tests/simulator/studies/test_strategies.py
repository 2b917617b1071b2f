"""The batching strategies beside each other on one model of an engine: what a batch gains, and what it waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway_simulator import EngineModel, Slo, Summary, simulate, summarise
from headway_simulator.studies.strategies import Strategy, plain
from headway_simulator.traffic.workload import Request

MODEL = EngineModel(base_s=0.03, seat_s=0.001, prefill_s=0.0005)
SLO = Slo(1.0, 0.075)
STRATEGIES: tuple[Strategy, ...] = ("static", "dynamic", "continuous")


def served(
    strategy: Strategy, gap_s: float, model: EngineModel = MODEL, *, seats: int = 8, tokens: int = 40
) -> Summary:
    """200 requests, one every ``gap_s``, whose answers have half to one and a half times so many tokens."""
    lengths = [tokens // 2 + 7 * place % tokens for place in range(200)]
    requests = [Request(place * gap_s, "normal", 32, length, length) for place, length in enumerate(lengths)]
    return summarise(strategy, simulate(requests, plain(strategy, seats), model), SLO)


def test_dynamic_batches_give_as_much_as_static_ones_under_load_and_wait_less_without() -> None:
    """At most 5 % fewer tokens a second when all comes at once; with a request every three seconds static ones wait for
    seven more, or for the flush.
    """
    static, dynamic = (served(strategy, 0.0).tokens_per_s for strategy in STRATEGIES[:2])
    assert dynamic == pytest.approx(static, rel=0.05)
    waits = [served(strategy, 3.0).all.end_to_end.mean_s or 0.0 for strategy in STRATEGIES]
    assert waits[0] > 4 * waits[1]
    assert waits[2] <= waits[1]


def test_long_sequences_shrink_the_batch_that_a_cache_holds() -> None:
    """Twice as long, about half as many at once: the same space, the same seats."""
    small = replace(MODEL, kv_tokens=2048)
    short, long = (served("continuous", 0.0, small, seats=64, tokens=tokens) for tokens in (100, 250))
    assert short.mean_batch > 1.7 * long.mean_batch
