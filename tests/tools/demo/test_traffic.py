"""The plan of the traffic: a pure function of its seed."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_tools.demo.traffic import (
    BURST_EVERY_S,
    BURST_SIZE,
    CLASSES,
    CYCLE_S,
    FIRST_BURST_S,
    OUTPUT_TOKENS,
    PHASES,
    PROMPT_TOKENS,
    Request,
    arrivals,
    between,
    mix,
    overload,
    phase_at,
)

seeds = st.integers(0, 2**32)
rates = st.floats(0.1, 20)


def plan(seed: int, rate_per_s: float, length_s: float) -> list[Request]:
    """The requests of the first ``length_s`` seconds."""
    return list(between(seed, rate_per_s, 0.0, length_s))


@given(seeds, rates)
def test_the_same_seed_gives_the_same_requests(seed: int, rate_per_s: float) -> None:
    """Two runs can be compared."""
    assert plan(seed, rate_per_s, 30) == plan(seed, rate_per_s, 30)
    assert plan(seed, rate_per_s, 10) == [one for one in plan(seed, rate_per_s, 30) if one.at_s < 10]


@given(seeds, rates)
def test_requests_come_in_order_and_are_what_their_class_asks_for(seed: int, rate_per_s: float) -> None:
    """Times never go back; lengths are those of the class."""
    planned = plan(seed, rate_per_s, 60)
    assert all(a.at_s <= b.at_s for a, b in itertools.pairwise(planned))
    for one in planned:
        assert one.at_s > 0
        for tokens, lengths in ((one.prompt_tokens, PROMPT_TOKENS), (one.output_tokens, OUTPUT_TOKENS)):
            least, most = lengths[one.class_name]
            assert least <= tokens <= most


@given(seeds, rates)
def test_even_a_short_run_has_every_class(seed: int, rate_per_s: float) -> None:
    """One second is enough."""
    assert {one.class_name for one in plan(seed, rate_per_s, 1)} == set(CLASSES)


@pytest.mark.parametrize("rate_per_s", [0.5, 1.5, 10.0])
def test_over_whole_cycles_the_rate_is_the_one_asked_for(rate_per_s: float) -> None:
    """Within four standard deviations of a Poisson count, bursts aside."""
    length_s = 50 * CYCLE_S
    steady = len(plan(1, rate_per_s, length_s)) - len(CLASSES) - BURST_SIZE * round(length_s / BURST_EVERY_S)
    expected = rate_per_s * length_s
    assert abs(steady - expected) < 4 * expected**0.5 + BURST_SIZE


def test_phases_differ_so_that_charts_move_and_average_to_one() -> None:
    """The mean over the cycle is the rate asked for."""
    assert sum(phase.length_s * phase.rate_ratio for phase in PHASES) == pytest.approx(CYCLE_S)
    assert len({phase.rate_ratio for phase in PHASES}) == len(PHASES)
    begins = itertools.accumulate((phase.length_s for phase in PHASES), initial=0.0)
    assert tuple(phase_at(begin_s) for begin_s, _ in zip(begins, PHASES, strict=False)) == PHASES
    assert phase_at(CYCLE_S) is PHASES[0]


def test_a_burst_of_batch_requests_comes_now_and_then() -> None:
    """All within half a second, so that they share an engine step."""
    for number in range(3):
        begin_s = FIRST_BURST_S + number * BURST_EVERY_S
        within = [one for one in plan(3, 0.1, 100) if begin_s <= one.at_s < begin_s + 0.5]
        assert sum(one.class_name == "batch" for one in within) >= BURST_SIZE


def test_there_is_no_last_request() -> None:
    """The endless demo draws from the same plan."""
    assert len(list(itertools.islice(arrivals(1, 1.0), 5000))) == 5000


@given(seeds, rates, st.floats(0.1, 30))
def test_two_parts_are_the_whole(seed: int, rate_per_s: float, cut_s: float) -> None:
    """Nothing is lost or sent twice where the overload comes between."""
    first, second = plan(seed, rate_per_s, cut_s), list(between(seed, rate_per_s, cut_s, 60))
    assert len(first) + len(second) == len(plan(seed, rate_per_s, 60))
    assert all(0 <= one.at_s < 60 - cut_s for one in second)
    assert [one[1:] for one in first + second] == [one[1:] for one in plan(seed, rate_per_s, 60)]


def test_the_overload_has_its_rate_from_the_beginning_to_the_end() -> None:
    """Within four standard deviations of a Poisson count, in each half; all classes, also where it is short."""
    times = [one.at_s for one in overload(5, 20.0, 100.0)]
    assert times == sorted(times)
    assert times[-1] < 100
    for begin_s in (0.0, 50.0):
        assert abs(sum(begin_s <= at_s < begin_s + 50 for at_s in times) - 1000) < 4 * 1000**0.5 + len(CLASSES)
    assert {one.class_name for one in overload(5, 0.5, 1.0)} == set(CLASSES)


def test_the_engine_is_measured_with_the_mix_of_the_overload() -> None:
    """The same shares of the classes, so that a multiple of the measured rate is one of the load."""
    few = [one.class_name for one in itertools.islice(mix(5), 2000)]
    many = [one.class_name for one in overload(6, 20.0, 100.0)]
    for name in CLASSES:
        assert abs(few.count(name) / len(few) - many.count(name) / len(many)) < 0.05


def test_answers_can_be_made_longer_for_a_fast_engine() -> None:
    """The same requests at the same times, each with so many times the tokens."""
    usual, longer = list(overload(5, 20.0, 10.0)), list(overload(5, 20.0, 10.0, stretch=3.0))
    assert [one.at_s for one in usual] == [one.at_s for one in longer]
    assert [one.prompt_tokens for one in usual] == [one.prompt_tokens for one in longer]
    assert [3 * one.output_tokens for one in usual] == [one.output_tokens for one in longer]
