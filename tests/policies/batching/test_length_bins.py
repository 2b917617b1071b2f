"""Batches of like predicted length, on a closed static suite with the step time of a small CPU engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.batching.length_bins import LengthBins, _costs, _cuts

MEMBERS = 32
REQUESTS = 4096
STEP_MS, SEQUENCE_MS, PREFILL_TOKEN_MS, PROMPT_TOKENS = 29.0, 1.06, 0.7, 64


def lognormal(random: Random) -> int:
    """Mean 64, cv 1, 4 to 512."""
    return min(512, max(4, round(random.lognormvariate(math.log(64) - math.log(2) / 2, math.sqrt(math.log(2))))))


def bimodal(random: Random) -> int:
    """Nine in ten are short."""
    return 512 if random.random() < 0.1 else 16


def drawn(draw: Callable[[Random], int], seed: int = 1) -> list[int]:
    random = Random(seed)
    return [draw(random) for _ in range(REQUESTS)]


def batch_ms(lengths: Sequence[int]) -> float:
    """A static batch: it runs as many steps as its longest has tokens, each sequence is in as many as it has."""
    prefill_ms = PREFILL_TOKEN_MS * PROMPT_TOKENS * len(lengths)
    return STEP_MS * max(lengths) + SEQUENCE_MS * sum(lengths) + prefill_ms


def suite_ms(k: int, lengths: Sequence[int], predicted: Sequence[float] | None = None) -> float:
    """All requests in order through k bins, each batch full but the last of each bin."""
    bins, total_ms = LengthBins(k, MEMBERS), 0.0
    lanes: list[list[int]] = [[] for _ in range(k)]
    for length, tokens in zip(lengths, predicted or lengths, strict=True):
        bins.seen(tokens)
        lane = lanes[bins.bin_of(tokens)]
        lane.append(length)
        if len(lane) == MEMBERS:
            total_ms += batch_ms(lane)
            lane.clear()
    return total_ms + sum(batch_ms(lane) for lane in lanes if lane)


def gain(k: int, lengths: Sequence[int], predicted: Sequence[float] | None = None) -> float:
    """Throughput over that of static batching without bins."""
    return suite_ms(1, lengths) / suite_ms(k, lengths, predicted)


def taught(k: int, lengths: Sequence[float]) -> LengthBins:
    bins = LengthBins(k, MEMBERS)
    for tokens in lengths:
        bins.seen(tokens)
    return bins


@pytest.mark.parametrize(("k", "goal"), [(4, 1.45), (8, 1.65)])
def test_bins_raise_the_throughput_of_static_batches(k: int, goal: float) -> None:
    """With known lengths of cv 1, four bins give 1.45 times and eight 1.65 times the throughput of none."""
    assert gain(k, drawn(lognormal)) >= goal


def test_a_rough_prediction_is_of_use() -> None:
    """With eight bins, predictions wrong by a factor of e^0.5 either way still give 1.3 times the throughput."""
    random, lengths = Random(2), drawn(lognormal)
    predicted = [length * math.exp(random.gauss(0, 0.5)) for length in lengths]
    assert gain(8, lengths, predicted) >= 1.30


@pytest.mark.parametrize("k", [2, 4, 8])
def test_two_lengths_are_separated(k: int) -> None:
    """When 90 % of the requests have one length, the split falls between the two and gains 95 % of perfect order."""
    lengths = drawn(bimodal)
    bins = taught(k, lengths)
    assert [bins.bin_of(16), bins.bin_of(512)] == [0, 1]
    assert gain(k, lengths) >= 0.95 * suite_ms(1, lengths) / suite_ms(1, sorted(lengths))


@pytest.mark.parametrize("k", [1, 4, 64])
def test_requests_of_one_length_stay_together(k: int) -> None:
    """Nothing is split that has nothing to gain from it: one length, or lengths that hardly differ."""
    assert gain(k, [64] * REQUESTS) == 1.0
    random = Random(3)
    bins = taught(k, [random.uniform(1000, 1004) for _ in range(REQUESTS)])
    assert {bins.bin_of(tokens) for tokens in (1000, 1002, 1004)} == {0}


def test_before_it_has_seen_enough_all_are_in_one_bin() -> None:
    """Nothing is separated by chance."""
    bins = taught(8, [16, 512] * 8)
    assert {bins.bin_of(tokens) for tokens in (0, 16, 512, 1e9)} == {0}


def test_the_edges_rest_between_refits() -> None:
    """Once the sample is full, a length keeps its bin for 512 arrivals, whatever comes."""
    bins = taught(4, drawn(lognormal)[:2528])  # 32 + 32 + 64 + 128 + 256 + 4 * 512, less the last 32
    probes = [2.0**power for power in range(1, 10)]
    before = [bins.bin_of(tokens) for tokens in probes]
    moved = []
    for number in range(1, 1100):
        bins.seen(5000.0)
        after = [bins.bin_of(tokens) for tokens in probes]
        if after != before:
            moved.append(number)
            before = after
    assert len(moved) >= 1
    assert all(later - earlier >= 512 for earlier, later in pairwise(moved))


def test_new_traffic_moves_the_edges() -> None:
    """When lengths change, so do the bins, as soon as the old ones have left the sample."""
    bins = taught(2, [16, 512] * 1000)
    assert bins.bin_of(40) == bins.bin_of(16)
    for tokens in [8, 40] * 512:
        bins.seen(tokens)
    assert bins.bin_of(40) == 1


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.integers(1, 64), st.integers(1, 500))
def test_a_bin_is_one_of_k_and_longer_answers_are_never_in_a_lower_one(
    lengths: list[float], k: int, members: int
) -> None:
    """Whatever has been seen, bins are numbered 0 to k - 1 in the order of length."""
    bins = LengthBins(k, members)
    for tokens in lengths:
        bins.seen(tokens)
    found = [bins.bin_of(tokens) for tokens in sorted(lengths)]
    assert found == sorted(found)
    assert 0 <= found[0] <= found[-1] < k


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 500)), min_size=1, max_size=7, unique_by=lambda one: one[1]),
    st.integers(1, 4),
)
def test_no_other_cuts_would_be_better(counted: list[tuple[int, int]], k: int) -> None:
    """The cuts are within half a percent for each bin of the best of all, found by trying every one."""
    groups = [(count, float(tokens), float(tokens)) for count, tokens in sorted(counted, key=lambda one: one[1])]

    def total(cuts: Sequence[int]) -> float:
        bounds = [0, *cuts, len(groups)]
        return sum(expected_cost(groups[first:end]) for first, end in pairwise(bounds))

    found = _cuts(_costs(groups, MEMBERS), k)
    inner = range(1, len(groups))
    best = min(total(cuts) for size in range(min(k, len(groups))) for cuts in combinations(inner, size))
    assert list(found) == sorted(set(found))
    assert len(found) < k
    assert total(found) * (1 - 0.005) ** k <= best * (1 + 1e-9)


def expected_cost(groups: Sequence[tuple[int, float, float]]) -> float:
    """Count times the expected longest of a batch: the integral of the chance that some member is longer."""
    count = sum(times for times, _, _ in groups)
    expected, at_most, last = 0.0, 0.0, 0.0
    for times, _, tokens in groups:
        expected += (tokens - last) * (1 - (at_most / count) ** MEMBERS)
        at_most, last = at_most + times, tokens
    return count * expected
