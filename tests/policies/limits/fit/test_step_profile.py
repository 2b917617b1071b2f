"""The step time over the whole range of an engine, and its speed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from math import exp, log, sqrt
from random import Random

import pytest

from headway_policies.limits.fit.step_profile import StepProfile
from headway_policies.limits.fit.step_time import StepTime

COSTS = StepTime(base_s=0.03, sequence_s=0.001, prefill_token_s=0.0005)
ALONE_S = COSTS.step_s(1, 0)
_LASTS_STEPS = 40


def steps(profile: StepProfile, running: int, number: int, slowness: float = 1.0, prefill_tokens: int = 0) -> None:
    """So many equal steps."""
    for _ in range(number):
        profile.add(running, prefill_tokens, slowness * COSTS.step_s(running, prefill_tokens))


def seen(slowness: float = 1.0, most: int = 64, noise: Iterator[float] | None = None) -> StepProfile:
    """A profile after steps with 1 to ``most`` sequences, with prompts and without; each takes ``noise`` as long."""
    profile, running, noise = StepProfile(), 1, noise or repeat(1.0)
    while running <= most:
        for _ in range(20):
            steps(profile, running, 1, slowness * next(noise))
            steps(profile, running + running // 2, 1, slowness * next(noise), prefill_tokens=40)
        running *= 2
    return profile


def varied(random: Random, deviation: float) -> Iterator[float]:
    """Factors near 1, of this standard deviation."""
    while True:
        yield max(0.2, random.gauss(1.0, deviation))


def test_a_linear_engine_is_known_over_its_whole_range() -> None:
    """All three costs within a tenth."""
    costs = seen().costs
    assert costs.base_s == pytest.approx(COSTS.base_s, rel=0.1)
    assert costs.sequence_s == pytest.approx(COSTS.sequence_s, rel=0.1)
    assert costs.prefill_token_s == pytest.approx(COSTS.prefill_token_s, rel=0.1)


def test_few_sequences_are_remembered_however_long_ago_they_were() -> None:
    """Five thousand steps at a hundred sequences: what a single one takes is still known."""
    profile = seen()
    steps(profile, 100, 5000)
    assert profile.token_s == pytest.approx(ALONE_S, rel=0.1)


@pytest.mark.parametrize("running", [1, 4, 32, 64])
def test_a_slow_spell_is_followed_up_and_back(running: int) -> None:
    """Six times as slow, for a while: some thirty steps later the unloaded pace is right within a tenth; and as soon
    after the end of it.
    """
    profile = seen()
    for slowness in (6.0, 1.0):
        steps(profile, running, 34, slowness)
        assert profile.token_s == pytest.approx(slowness * ALONE_S, rel=0.1)
        steps(profile, running, 200, slowness)
        assert profile.token_s == pytest.approx(slowness * ALONE_S, rel=0.1)


def test_an_engine_that_is_slow_from_the_start_is_known_when_it_is_fast_again() -> None:
    """There is nothing to compare with at first: the slow speed is taken for its own, and the fast one is followed."""
    profile = seen(6.0)
    assert profile.token_s == pytest.approx(6 * ALONE_S, rel=0.1)
    steps(profile, 16, 34)
    assert profile.token_s == pytest.approx(ALONE_S, rel=0.1)


def test_a_small_change_is_followed() -> None:
    """A few steps of half as long again, then all of a fourteenth: the unloaded pace is a fourteenth longer."""
    profile = seen()
    steps(profile, 32, 8, 1.5)
    steps(profile, 32, 100, 1.07)
    assert profile.token_s == pytest.approx(1.07 * ALONE_S, rel=0.02)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("dearer", [1.25, 1.5])
def test_a_start_into_an_overload_is_no_slow_spell(dearer: float, seed: int) -> None:
    """Short steps with up to eight sequences, then twenty to a hundred, each of which costs more than the eight did:
    the pace of a single sequence is right within a fifth from the first second on.
    """
    random = Random(seed)
    noise = varied(random, 0.05)
    profile, overload = (
        seen(most=8, noise=noise),
        StepTime(COSTS.base_s, dearer * COSTS.sequence_s, COSTS.prefill_token_s),
    )
    for number in range(400):
        running = min(100, 20 + number) - random.randint(0, 10)
        prompts = random.choice((0, 0, 50, 200))
        profile.add(running, prompts, next(noise) * overload.step_s(running, prompts))
        assert number < 8 or profile.token_s == pytest.approx(ALONE_S, rel=0.2)


def test_a_number_that_is_first_seen_in_a_slow_spell_is_not_learnt_as_slow() -> None:
    """After a warm-up with one sequence and with many, a number between them is seen first while steps take 1.6 times
    as long: a tenth off during the spell and after it.
    """
    profile = StepProfile()
    steps(profile, 1, 40)
    steps(profile, 32, 40)
    for slowness in (1.6, 1.0):
        for _ in range(20):
            for running in (17, 20, 23):
                steps(profile, running, 1, slowness)
        assert profile.token_s == pytest.approx(slowness * ALONE_S, rel=0.1)


@pytest.mark.parametrize("running", [1, 16])
def test_a_single_pause_is_ignored(running: int) -> None:
    """One step of a hundred times its length moves nothing by more than a twentieth."""
    profile = seen()
    before_s = profile.token_s
    steps(profile, running, 1, 100.0)
    assert profile.token_s == pytest.approx(before_s, rel=0.05)
    steps(profile, running, 50)
    assert profile.token_s == pytest.approx(before_s, rel=0.05)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_noise_does_not_move_it(seed: int) -> None:
    """Of steps that vary by a fifth, five thousand with sixteen sequences: 99 in 100 times within 15 per cent, always
    within a quarter.
    """
    noise, off = varied(Random(seed), 0.2), list[float]()
    profile = seen(noise=noise)
    for _ in range(5000):
        profile.add(16, 0, next(noise) * COSTS.step_s(16, 0))
        off.append(abs(profile.token_s / ALONE_S - 1))
    off.sort()
    assert off[int(0.99 * len(off))] < 0.15
    assert off[-1] < 0.25


@pytest.mark.parametrize("slowness", [2.0, 3.0, 6.0])
def test_an_engine_that_is_slow_from_its_start_is_known_some_hundred_steps_after_it_is_fast(slowness: float) -> None:
    """A dozen long steps, most with long prompts, and then fast ones beside few sequences more."""
    profile = StepProfile()
    for running in (2, 8, 16, 32, 64, 64, 128, 128, 128, 128, 128, 128):
        steps(profile, running, 1, slowness, prefill_tokens=16 * running)
    for round_ in range(40):
        for running in (90, 140, 180, 240):
            steps(profile, running, 2, prefill_tokens=round_ % 3 * 60)
    costs, wrong = profile.costs, 0.35
    assert costs.prefill_token_s == pytest.approx(COSTS.prefill_token_s, rel=wrong)
    assert costs.sequence_s == pytest.approx(COSTS.sequence_s, rel=wrong)
    assert costs.base_s > 0.4 * COSTS.base_s


@pytest.mark.parametrize("step_s", [0.0, -1.0, float("inf"), float("nan")])
def test_a_time_that_is_none_is_ignored(step_s: float) -> None:
    """Of the first step, and of a later one."""
    for profile in (StepProfile(), seen()):
        before = profile.samples, profile.costs
        profile.add(4, 0, step_s)
        assert (profile.samples, profile.costs) == before


def test_costs_that_were_known_before_are_the_first_ones() -> None:
    """The costs are those of another process, until there are steps."""
    profile = StepProfile()
    profile.start_from(COSTS)
    assert (profile.samples, profile.costs) == (0, COSTS)
    assert profile.token_s == pytest.approx(ALONE_S)


def served(steps: int, mean_running: int, seed: int, others: float) -> Iterator[tuple[int, int, float]]:
    """Requests that come and go; every few dozen steps other programs change the speed by ``others`` (sigma)."""
    random, running, speed = Random(seed), mean_running, 0.0
    for _ in range(steps):
        speed += others * sqrt(2 / _LASTS_STEPS) * random.gauss(0, 1) - speed / _LASTS_STEPS
        arrives, leaves = random.random() < 0.1, random.random() < 0.1 * running / mean_running
        prompts = random.randint(20, 120) if arrives else 0
        running = max(1, running + arrives - leaves)
        yield running, prompts, COSTS.step_s(running, prompts) * exp(speed + random.gauss(0, 0.05))


@pytest.mark.parametrize("mean_running", [3, 8, 16])
@pytest.mark.parametrize("others", [0.1, 0.2])
def test_other_programs_do_not_lead_the_costs_apart(mean_running: int, others: float) -> None:
    """After dozens of changes of speed the pace of one sequence is still what it was, but for the present speed."""
    off = []
    for seed in (1, 2, 3):
        profile = seen()
        for step in served(4000, mean_running, seed, others):
            profile.add(*step)
            off.append(abs(log(profile.token_s / ALONE_S)))
    off.sort()
    assert off[len(off) // 2] < 0.25
    assert off[int(0.95 * len(off))] < 0.7


def test_a_pace_that_was_never_seen_follows_from_the_costs() -> None:
    """From steps with many sequences alone, of several numbers."""
    profile = StepProfile()
    for _ in range(60):
        for running in (4, 8, 16, 32):
            steps(profile, running, 1)
    assert profile.token_s == pytest.approx(ALONE_S, rel=0.1)


@pytest.mark.parametrize("full_s", [0.0, 0.03, 0.15])
def test_contexts_that_grow_are_not_taken_for_a_slower_engine(full_s: float) -> None:
    """Requests that start together and whose contexts fill half of the KV cache, twice, whether that costs time or
    not: the pace of one of them with its context stays right within a seventh.
    """
    noise, profile = varied(Random(1), 0.05), seen(noise=varied(Random(2), 0.05))
    for step in range(1600):
        running, used = 32, 0.1 + 0.4 * (step % 800) / 800
        profile.add(running, 0, next(noise) * (COSTS.step_s(running, 0) + full_s * used), used)
        if step > 800:
            assert profile.token_s == pytest.approx(ALONE_S + full_s * used / running, rel=0.15)


def test_a_report_of_several_steps_that_take_far_too_long_is_a_pause() -> None:
    """Up to two of them in a row are; from the third one on the engine is slow."""
    profile = seen()
    for _ in range(2):
        profile.add(8, 0, 10 * COSTS.step_s(8, 0), times=8)
    assert profile.token_s == pytest.approx(ALONE_S, rel=0.1)
    for _ in range(12):
        profile.add(8, 0, 10 * COSTS.step_s(8, 0), times=8)
    assert profile.token_s == pytest.approx(10 * ALONE_S, rel=0.2)
