"""The proposals of the fitted model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from intervals import interval

from headway_policies.limits.fit.step_time import StepTime
from headway_policies.limits.limit import LimitSettings
from headway_policies.limits.model_fit import ModelFit

CPU = StepTime(base_s=0.029, sequence_s=0.00106, prefill_token_s=0.0007)
SET_POINT_S = 0.92 * 0.075
#: The limit by itself: prompts are not paced.
ALONE = LimitSettings(policy="model", pace_prompts=False)


def learnt(prompt_tokens: float, output_tokens: float, slowness: float = 1.0) -> ModelFit:
    """A policy that has seen a stream of such sequences at 4 to 40 seats."""
    policy = ModelFit(ALONE, 16)
    for seats in list(range(4, 40, 4)) * 10:
        show(policy, seats, seats * prompt_tokens / output_tokens, slowness)
    return policy


def show(policy: ModelFit, seats: int, prefill_tokens: float, slowness: float = 1.0) -> int:
    time_s = slowness * CPU.step_s(seats, prefill_tokens)
    return policy.propose(interval(seats, time_s, prefill_tokens=prefill_tokens), seats)


@pytest.mark.parametrize(
    ("prompt_tokens", "output_tokens"), [(64, 64), (384, 32), (16, 192)], ids=["chat", "long prompts", "long outputs"]
)
def test_it_proposes_the_seats_that_meet_the_set_point(prompt_tokens: float, output_tokens: float) -> None:
    """The fluid optimum of each mix, (set point - base) / (sequence + prefill x prompt / output), within one seat."""
    ratio = prompt_tokens / output_tokens
    best = (SET_POINT_S - CPU.base_s) / (CPU.sequence_s + CPU.prefill_token_s * ratio)
    assert show(learnt(prompt_tokens, output_tokens), 12, 12 * ratio) == pytest.approx(best, abs=1)


def test_prefill_work_is_fed_forward() -> None:
    """The same time between tokens, but made of prompts: fewer seats are proposed, although nothing is slow yet."""
    light, heavy = learnt(64, 64), learnt(64, 64)
    for _ in range(8):
        few = show(heavy, 6, 6 * 12)
        many = show(light, 6, 6)
    assert few < 6 < many


def test_where_prompts_are_paced_it_leaves_room_for_half_of_them() -> None:
    """The pacing keeps the set point then, and the limit bounds what may run: a quarter more seats for chat."""
    paced = ModelFit(LimitSettings(policy="model"), 16)
    for seats in list(range(4, 40, 4)) * 10:
        show(paced, seats, seats)
    best = (SET_POINT_S - CPU.base_s) / (CPU.sequence_s + CPU.prefill_token_s / 2)
    assert show(paced, 12, 12) == pytest.approx(best, abs=2)
    assert best / ((SET_POINT_S - CPU.base_s) / (CPU.sequence_s + CPU.prefill_token_s)) == pytest.approx(1.25, abs=0.01)


@pytest.mark.parametrize("seats", [1, 2, 3, 8])
def test_far_below_the_set_point_it_grows_also_from_a_single_seat(seats: int) -> None:
    """Twice as many take twice as long at the most: at 2.3 times the pace of a sequence a limit is stuck nowhere."""
    policy = ModelFit(LimitSettings(policy="model", inter_token_slo_ms="2.5x"), 16)
    for _ in range(50):
        proposed = policy.propose(interval(seats, 0.03, prefill_tokens=0, unloaded_token_s=0.03), seats)
    assert proposed >= 2 * seats


def test_it_falls_gently_while_the_objective_is_kept() -> None:
    """A model of a slower engine wants far fewer seats: by a twelfth while the tokens come in time, else at once."""
    assert show(learnt(16, 128, slowness=1.6), 24, 3, slowness=1.0) == 22
    assert show(learnt(16, 128, slowness=1.6), 24, 3, slowness=1.6) < 18


def test_it_follows_an_engine_that_slows_down() -> None:
    """An engine half as fast again gets its own optimum within ten intervals."""
    policy = learnt(16, 128)
    seats = 32
    for _ in range(10):
        seats = show(policy, seats, seats / 8, 1.5)
    best = (SET_POINT_S / 1.5 - CPU.base_s) / (CPU.sequence_s + CPU.prefill_token_s / 8)
    assert seats == pytest.approx(best, rel=0.2)


def test_a_hair_does_not_move_it() -> None:
    """Near the optimum half a per cent up and down leave the limit where it is."""
    policy = learnt(16, 128)
    seats = 33
    for _ in range(10):
        seats = show(policy, seats, seats / 8)
    moved = {show(policy, seats, seats / 8, slowness) for slowness in (1.005, 0.995, 0.995, 1.005)}
    assert moved == {seats}


def test_the_waits_of_the_preempted_are_not_learnt() -> None:
    """Preemption makes tokens late without slower steps; the model stays what it was."""
    policy, spared = learnt(64, 64), learnt(64, 64)
    policy.propose(interval(20, 5.0, prefill_tokens=20, preemptions=3), 20)
    assert show(policy, 12, 12) == show(spared, 12, 12)


@pytest.mark.parametrize("seen", [interval(32, None), interval(0, 0.05)], ids=["no time", "nothing runs"])
def test_nothing_seen_nothing_changed(seen: object) -> None:
    """Without a time between tokens, or anything that runs, the limit stays."""
    assert learnt(64, 64).propose(seen, 32) == 32  # type: ignore[arg-type]  # an Interval


@given(st.lists(st.tuples(st.just(0.0) | st.floats(0.01, 1e5), st.floats(1e-6, 1e4), st.floats(0, 1e7)), max_size=30))
def test_any_history_gives_a_whole_number(history: list[tuple[float, float, float]]) -> None:
    """Whatever an engine shows, the proposal is an int of at least 0."""
    policy = ModelFit(ALONE, 16)
    for running, time_s, prefill_tokens in history:
        proposal = policy.propose(interval(running, time_s, prefill_tokens=prefill_tokens), 16)
        assert type(proposal) is int
        assert proposal >= 0
