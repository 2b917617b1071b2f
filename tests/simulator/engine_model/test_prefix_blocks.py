"""The engine model with a prefix cache: what is computed once, shared, found again and evicted."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from played_engine import ends, played

from headway_simulator.engine_model.engine import Engine, EngineModel, Sequence, Steps
from headway_simulator.engine_model.prefix_blocks import PrefixBlocks

#: A step takes a second and a prompt token another; 16 blocks of 16 tokens.
MODEL = EngineModel(base_s=1.0, seat_s=0.0, prefill_s=1.0, kv_tokens=256, prefix_cache=True)


def sequence(place: int, prefix: int = 1, output_tokens: int = 1, more_tokens: int = 16) -> Sequence:
    """64 common tokens and some of its own."""
    return Sequence(place, 64 + more_tokens, output_tokens, prefix=prefix, prefix_tokens=64)


def test_a_common_prefix_is_computed_once() -> None:
    """The second with it computes its own tokens only, also after the first has ended."""
    reports = played(Engine(MODEL), [(0.0, sequence(1)), (200.0, sequence(2)), (400.0, sequence(3, prefix=2))])
    assert ends(reports) == {1: 81.0, 2: 217.0, 3: 481.0}
    assert [(one.prefix_queried_tokens, one.prefix_hit_tokens) for _, one in reports] == [(80, 0), (80, 64), (80, 0)]


def test_without_the_cache_nothing_is_shared() -> None:
    """Off by default: the prefix is computed each time."""
    reports = played(Engine(replace(MODEL, prefix_cache=False)), [(0.0, sequence(1)), (200.0, sequence(2))])
    assert ends(reports) == {1: 81.0, 2: 281.0}
    assert not EngineModel().prefix_cache


def test_a_prompt_that_is_all_there_still_takes_a_token() -> None:
    """vLLM computes the last token of a prompt again."""
    reports = played(Engine(MODEL), [(0.0, sequence(1, more_tokens=0)), (200.0, sequence(2, more_tokens=0))])
    assert ends(reports)[2] == 202.0


def test_sequences_hold_their_common_blocks_together() -> None:
    """16 blocks hold twelve sequences of four common blocks and one of their own; without the cache, three."""
    for cached, most in ((True, 12), (False, 3)):
        model = replace(MODEL, prefix_cache=cached, prefill_s=0.0)
        arrivals = [(0.0, sequence(place, output_tokens=2, more_tokens=15)) for place in range(20)]
        reports = played(Engine(model), arrivals)
        assert max(steps.running for _, steps in reports) == most


def test_the_prefix_that_was_free_longest_is_evicted_first_from_its_end() -> None:
    """Room for three prefixes, in blocks: the fourth takes from the first."""
    blocks = PrefixBlocks(12)
    for prefix in (1, 2, 3):
        blocks.admit(prefix, 4, 4)
        assert blocks.release(prefix, 4, 4) == 4
    blocks.admit(1, 4, 4)  # used again
    blocks.release(1, 4, 4)
    blocks.take(3)
    assert [blocks.found(prefix, 4) for prefix in (1, 2, 3)] == [4, 1, 4]
    blocks.take(4)
    assert [blocks.found(prefix, 4) for prefix in (1, 2, 3)] == [4, 0, 1]


def test_what_a_sequence_holds_is_not_evicted() -> None:
    """A prefix with a holder is not among the free blocks, and not asked for twice."""
    blocks = PrefixBlocks(12)
    blocks.admit(1, 4, 5)
    assert blocks.wanted(1, 4, 6) == 2
    blocks.admit(1, 4, 6)
    blocks.take(5)
    assert blocks.found(1, 4) == 4
    assert blocks.release(1, 4, 5) == 1
    assert blocks.release(1, 4, 6) == 6
    assert blocks.wanted(1, 4, 6) == 6


def _arrivals(seed: int) -> list[tuple[float, Sequence]]:
    random, at_s, arrivals = Random(seed), 0.0, []
    for place in range(150):
        at_s += random.expovariate(5.0)
        prefix = random.randint(0, 6)
        lengths = 64 * bool(prefix) + random.randint(1, 150), random.randint(1, 120)
        arrivals.append((at_s, Sequence(place, *lengths, prefix=prefix, prefix_tokens=64 * bool(prefix))))
    return arrivals


@pytest.mark.parametrize("seed", range(8))
def test_many_steps_at_once_are_the_same_as_one_by_one(seed: int) -> None:
    """Every end at the same time, through hits, evictions and preemptions; all blocks are free in the end."""
    model = EngineModel(kv_tokens=2000, step_tokens=100, prefix_cache=True)
    logs = []
    for most_steps in (1, 7, 10**9):
        engine = Engine(model)
        reports = played(engine, _arrivals(seed), most_steps)
        logs.append(ends(reports))
        assert sum(steps.preemptions for _, steps in reports) > 5
        assert 0.05 < _hit_ratio(reports) < 0.9
        assert engine._prefixes is not None
        assert engine.free_blocks == engine.blocks == sum(engine._prefixes._free.values())
    assert logs[0] == logs[1] == logs[2]


def _hit_ratio(reports: list[tuple[float, Steps]]) -> float:
    hits = sum(steps.prefix_hit_tokens for _, steps in reports)
    return hits / sum(steps.prefix_queried_tokens for _, steps in reports)
