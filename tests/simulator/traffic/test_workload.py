"""Seeded arrivals: the same from the same seed, and with the stated statistics."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from headway_simulator.engine_model.capacity import Slo, ceiling
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.traffic.lengths import Lengths, bimodal, exponential, fixed, lognormal
from headway_simulator.traffic.workload import WORKLOADS, Phase, Request, Workload

MODEL, SLO = EngineModel(), Slo()


def drawn(workload: Workload, duration_s: float, seed: int = 1, load: float | None = None) -> list[Request]:
    """Requests on the usual engine."""
    return workload.requests(duration_s, seed, model=MODEL, slo=SLO, load=load)


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_same_seed_gives_the_same_requests_and_another_seed_others(name: str) -> None:
    """Every named workload can be repeated."""
    assert drawn(WORKLOADS[name], 60) == drawn(WORKLOADS[name], 60)
    if name != "W4-fixed":
        assert drawn(WORKLOADS[name], 60, seed=2) != drawn(WORKLOADS[name], 60)


@pytest.mark.parametrize("name", WORKLOADS)
def test_requests_come_in_order_within_the_duration(name: str) -> None:
    """Arrival times never run backwards."""
    times_s = [request.at_s for request in drawn(WORKLOADS[name], 60)]
    assert times_s == sorted(times_s)
    assert times_s[0] >= 0
    assert times_s[-1] < 60


def test_the_ceiling_is_that_of_the_fluid() -> None:
    """A + B b + prompts at 0.95 of the objective: 24 seats and 5.26 requests/s for the usual chat."""
    top = ceiling(MODEL, 64, 64, SLO)
    assert top.seats == 24
    assert top.requests_per_s == pytest.approx(1 / (64 * 0.0007 + 64 * (0.029 / 24 + 0.00106)))
    assert top.inter_token_s <= 0.95 * 0.075 < ceiling(MODEL, 64, 64, SLO, 1.0).inter_token_s


def test_the_ceiling_keeps_one_seat_whatever_the_objective() -> None:
    """Even where one alone is too slow."""
    assert ceiling(MODEL, 64, 64, Slo(inter_token_s=0.001)).seats == 1


def test_the_ceiling_counts_what_contexts_cost() -> None:
    """Requests of 64 and 64 tokens whose contexts cost as much as a sequence does: as on an engine with twice that."""
    context_s = MODEL.seat_s * MODEL.kv_tokens / 128
    twice, contexts = replace(MODEL, seat_s=2 * MODEL.seat_s), replace(MODEL, context_s=context_s)
    assert ceiling(contexts, 64, 64, SLO) == ceiling(twice, 64, 64, SLO)


@pytest.mark.parametrize("load", [0.7, 1.5, 3.0])
def test_a_load_is_a_multiple_of_the_ceiling(load: float) -> None:
    """Within what chance allows a Poisson count: four standard deviations."""
    expected = load * ceiling(MODEL, 64, 64, SLO).requests_per_s * 1000
    assert len(drawn(WORKLOADS["W1"], 1000, load=load)) == pytest.approx(expected, abs=4 * math.sqrt(expected))


@pytest.mark.parametrize(("name", "cv"), [("W1", 1.0), ("W2", 3.5)])
def test_gaps_have_their_coefficient_of_variation(name: str, cv: float) -> None:
    """Poisson 1; bursts more, at the same mean rate."""
    gaps_s = [later.at_s - earlier.at_s for earlier, later in pairwise(drawn(WORKLOADS[name], 5000))]
    assert statistics.pstdev(gaps_s) / statistics.fmean(gaps_s) == pytest.approx(cv, rel=0.1)
    rate_per_s = WORKLOADS[name].rates_per_s(MODEL, SLO)[0]
    assert 1 / statistics.fmean(gaps_s) == pytest.approx(rate_per_s, rel=0.08)


@pytest.mark.parametrize(
    ("lengths", "mean", "cv"),
    [
        (fixed(64), 64, 0.0),
        (lognormal(64, 1.0, 1, 100_000), 64, 1.0),
        (lognormal(64, 0.5, 1, 100_000), 64, 0.5),
        (exponential(64, most=100_000), 64, 1.0),
        (bimodal(16, 512, 0.1), 65.6, 2.27),
    ],
    ids=["fixed", "lognormal", "narrow", "exponential", "bimodal"],
)
def test_lengths_have_their_mean_and_variation(lengths: Lengths, mean: float, cv: float) -> None:
    """And the stated mean, from which loads are computed."""
    one = Workload("x", "", (Phase(fixed(1), lengths),), closed=20_000)
    tokens = [request.output_tokens for request in drawn(one, 0)]
    assert statistics.fmean(tokens) == pytest.approx(mean, rel=0.05)
    assert statistics.pstdev(tokens) / mean == pytest.approx(cv, rel=0.1)
    assert lengths.mean_tokens == pytest.approx(mean)


def test_lengths_are_cut_off() -> None:
    """No answer beyond what the engine would allow, none empty."""
    tokens = [request.output_tokens for request in drawn(WORKLOADS["W4"], 0)]
    assert min(tokens) >= 4
    assert max(tokens) <= 512


def test_phases_follow_each_other_with_their_own_lengths_and_rates() -> None:
    """60 s each, every one at the same multiple of its own ceiling; the circle closes after the fifth."""
    workload = WORKLOADS["W3"]
    rates_per_s = workload.rates_per_s(MODEL, SLO)
    requests = drawn(workload, 600)
    for round_s in (0, 300):
        for place, rate_per_s in enumerate(rates_per_s):
            begin_s = round_s + 60 * place
            part = [request for request in requests if begin_s <= request.at_s < begin_s + 60]
            assert len(part) == pytest.approx(60 * rate_per_s, abs=4 * math.sqrt(60 * rate_per_s))
            mean = statistics.fmean(request.prompt_tokens for request in part)
            assert mean == pytest.approx(workload.phases[place].prompt.mean_tokens, rel=0.25)


def test_a_gap_across_phases_is_stretched_by_the_rate_of_each() -> None:
    """Phases shorter than the gaps between requests still have their own rates."""
    tokens = fixed(64)
    phases = (Phase(tokens, tokens, 0.25, load_ratio=0.02), Phase(tokens, tokens, 0.05, load_ratio=0.9))
    requests = drawn(Workload("x", "", phases, load=1.0), 20_000)
    slow = sum(request.at_s % 0.3 < 0.25 for request in requests)
    slow_per_s, fast_per_s = Workload("x", "", phases, load=1.0).rates_per_s(MODEL, SLO)
    expected = 20_000 / 0.3 * 0.25 * slow_per_s
    assert slow == pytest.approx(expected, abs=4 * math.sqrt(expected))
    expected = 20_000 / 0.3 * 0.05 * fast_per_s
    assert len(requests) - slow == pytest.approx(expected, abs=4 * math.sqrt(expected))


def test_classes_and_tenants_have_their_shares() -> None:
    """A fifth is urgent; the heavy tenant offers two thirds."""
    requests = drawn(WORKLOADS["W1"], 1000)
    urgent = sum(request.class_name == "realtime" for request in requests) / len(requests)
    assert urgent == pytest.approx(0.2, abs=0.02)
    six = drawn(WORKLOADS["W6"], 1000)
    tenants = Counter(request.tenant for request in six)
    assert tenants["greedy"] / len(six) == pytest.approx(2 / 3, abs=0.02)
    assert tenants["tiny"] / len(six) == pytest.approx(1 / 30, abs=0.01)


def test_each_tenant_has_system_prompts_of_its_own() -> None:
    """32 in all, four to each of eight tenants, of 512 tokens before a prompt of the usual length."""
    requests = drawn(WORKLOADS["W7"], 2000)
    prompts = {tenant: {one.prefix for one in requests if one.tenant == tenant} for tenant in WORKLOADS["W7"].tenants}
    assert [len(prompt) for prompt in prompts.values()] == [4] * 8
    assert set().union(*prompts.values()) == set(range(1, 33))
    assert all((request.prefix_tokens, request.prompt_tokens > 512) == (512, True) for request in requests)
    assert not any(one.prefix for one in drawn(WORKLOADS["W6"], 60))


def test_adapters_have_their_shares() -> None:
    """A third is for the model itself; the engine runs two of the eight at once."""
    requests = drawn(WORKLOADS["W9"], 2000)
    found = Counter(request.adapter for request in requests)
    assert found[""] / len(requests) == pytest.approx(9 / 29, abs=0.03)
    assert found["adapter-3"] / found["adapter-0"] == pytest.approx(4, rel=0.3)
    assert (len(found), WORKLOADS["W9"].most_adapters) == (9, 2)


def test_what_clients_say_of_lengths_can_be_right_wrong_or_nothing() -> None:
    """Exact, off by a factor around 1, or unsaid; what they really generate stays the same."""
    workload = replace(WORKLOADS["W4"], closed=2000)
    exact = drawn(workload, 0)
    assert all(request.max_tokens == request.output_tokens for request in exact)
    assert all(request.max_tokens is None for request in drawn(replace(workload, tells_length=False), 0))
    noisy = drawn(replace(workload, length_error=0.5), 0)
    errors = [math.log((request.max_tokens or 0) / request.output_tokens) for request in noisy]
    assert statistics.pstdev(errors) == pytest.approx(0.5, rel=0.1)
