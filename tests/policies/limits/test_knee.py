"""The limit that grows as long as more sequences give more tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest
from intervals import interval, signals

from headway_policies import Signals
from headway_policies.limits import EngineFit, LimitSettings, make_limit
from headway_policies.limits.governor import Governor
from headway_policies.limits.knee import Knee

KNEE = LimitSettings(policy="knee", memory_aware=True)
BASE_S, SEQUENCE_S = 0.01, 0.001
#: One per cent more sequences give base / (base + c b) per cent more tokens: a fiftieth at 49 base / c.
RIGHT = 49 * BASE_S / SEQUENCE_S


def step_s(seats: float) -> float:
    """A linear engine."""
    return BASE_S + SEQUENCE_S * seats


def grown(limit: Governor, until_s: float, *, queued: int = 100_000, kv_tokens: float = 0.0) -> int:
    """The limit after a while in which its seats are always taken."""
    now_s = 0.0
    while now_s < until_s:
        seats = limit.seats(now_s)
        now_s += step_s(seats)
        load = signals(seats, step_s(seats), prefill_tokens=0, kv_usage_ratio=min(1.0, seats * kv_tokens)).load
        limit.observe(Signals(replace(load, kv_capacity_tokens=100_000), seats, queued, limited=queued > 0), now_s)
    return limit.seats(now_s)


def governed(fixed: int = 16, ceiling: int | None = None) -> Governor:
    limit = make_limit(KNEE, fixed, ceiling)
    assert isinstance(limit, Governor)
    return limit


def test_it_ends_where_more_sequences_give_hardly_more_tokens() -> None:
    """At an elasticity of a fiftieth: within a fifth of the right number on a linear engine."""
    assert grown(governed(), 120.0) == pytest.approx(RIGHT, rel=0.2)


def test_it_is_there_within_a_few_doublings() -> None:
    """From 16 seats to half of 490 in the first ten seconds: 32, 64, 128, 256."""
    assert grown(governed(), 10.0) >= RIGHT / 2


def test_it_does_not_grow_without_a_queue() -> None:
    """Seats that no request waits for teach nothing."""
    assert grown(governed(), 30.0, queued=0) == 16


def test_the_ceiling_and_the_memory_bound_it() -> None:
    """No more seats than the engine has, and none for which its cache has no room."""
    assert grown(governed(ceiling=100), 60.0) == 100
    assert grown(governed(), 60.0, kv_tokens=1 / 150) <= 150


def test_it_keeps_no_objective() -> None:
    """However slow the tokens are, only the knee counts."""
    assert KNEE.slo_s(0.01) == float("inf")
    policy = Knee(KNEE, 16)
    for seats in (4, 8, 16, 32) * 20:
        proposed = policy.propose(interval(seats, 100 * step_s(seats), prefill_tokens=0), seats)
    assert proposed == pytest.approx(RIGHT, rel=0.1)


def test_without_times_it_stays_and_without_costs_it_grows() -> None:
    """An interval in which no token was timed says nothing; sequences that cost nothing have no knee."""
    policy = Knee(KNEE, 16)
    assert policy.propose(interval(16, None), 16) == 16
    for _ in range(3):
        proposed = policy.propose(interval(0.0001, 0.01, prefill_tokens=0), 16)
    assert proposed >= 16


def test_it_goes_on_from_what_another_process_had_learnt() -> None:
    """The costs, by their names."""
    engine = EngineFit()
    Knee(KNEE, 16, engine).recall(
        {"base_s": BASE_S, "sequence_s": SEQUENCE_S, "prefill_token_s": 0.0, "prefill_tokens_per_sequence": 0.0}
    )
    assert engine.seats_at(0.02) == pytest.approx(RIGHT)
    assert Knee(KNEE, 16, engine).learnt()["base_s"] == BASE_S


def test_a_fit_without_a_fixed_cost_moves_nothing() -> None:
    """Steps that grow more than in proportion to their sequences say nothing of the knee."""
    knee = Knee(KNEE, 16)
    for seats in (40, 50, 60) * 20:
        proposal = knee.propose(interval(seats, SEQUENCE_S * (2 * seats - 40), prefill_tokens=0), 200)
    assert proposal == 200


def test_it_falls_no_lower_than_the_seats_of_the_preset() -> None:
    """Where a sequence costs nearly a whole step the knee is at fewer."""
    knee = Knee(KNEE, 64)
    for seats in (1, 8, 40, 60) * 20:
        proposal = knee.propose(interval(seats, 0.001 + 0.01 * seats, prefill_tokens=0), 200)
    assert proposal == 64
