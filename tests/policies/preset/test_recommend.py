"""The recommended preset, with and without the traffic of a server."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies import bundled_presets
from headway_policies.preset.recommend import Needs, Traffic, recommend

CALM = Traffic(
    over_s=5.0,
    strategy="continuous",
    adaptive=False,
    limit=32,
    ceiling=64,
    seats_taken=20,
    queued_before=0,
    queued=0,
    arrivals=50,
    kv_usage_ratio=0.4,
    inter_token_slo_ms=75.0,
    mean_batch=20.0,
    inter_token_ms=50.0,
)
FULL = replace(CALM, seats_taken=32, mean_batch=32.0, queued_before=3, queued=40)


@pytest.mark.parametrize(
    ("needs", "preset"),
    [
        (Needs(), "balanced"),
        (Needs(latency=True), "latency"),
        (Needs(throughput=True), "throughput"),
        (Needs(latency=True, throughput=True), "latency"),
        (Needs(offline=True), "offline"),
        (Needs(offline=True, inter_token_slo_ms=50), "offline"),
        (Needs(inter_token_slo_ms=50), "interactive"),
        (Needs(latency=True, inter_token_slo_ms=50), "interactive"),
    ],
    ids=str,
)
def test_the_decision_tree(needs: Needs, preset: str) -> None:
    """Latency before throughput, else a balance of both; a promised time between tokens wants an adaptive limit."""
    assert recommend(needs).preset == preset


def test_recommendations_are_the_bundled_presets_for_an_engine_and_each_of_them_occurs() -> None:
    """All but ``dynamic`` and ``serial``, which are chosen by name; and no answer comes without a reason."""
    flags = (False, True)
    every = [Needs(*one) for one in product(flags, flags, flags, (None, 60.0))]
    assert {recommend(needs).preset for needs in every} == set(bundled_presets()) - {"dynamic", "serial"}
    assert all(recommend(needs).because for needs in every)


def test_a_promise_is_named_in_its_reason() -> None:
    """The operator sees the number they gave."""
    assert "60 ms" in recommend(Needs(inter_token_slo_ms=60)).because


@pytest.mark.parametrize(
    ("traffic", "do", "because"),
    [
        (CALM, "leave it as it is", "the queue does not grow"),
        (
            replace(CALM, arrivals=0, seats_taken=0, mean_batch=None, inter_token_ms=None),
            "ask again under load",
            "no request arrived or ran within 5 s",
        ),
        (FULL, "more seats, up to 64", "the queue grew from 3 to 40 in 5 s with all 32 seats taken"),
        (replace(FULL, ceiling=32), "larger --max-num-seqs", "60% of the KV cache is free"),
        (replace(FULL, adaptive=True), "larger inter_token_slo_ms", "60% of the KV cache is free"),
        (replace(FULL, kv_usage_ratio=0.8), "more instances", "80% of the KV cache"),
        (replace(FULL, seats_taken=10, mean_batch=10.0), "reserved_seats", "with seats free"),
        (replace(FULL, seats_taken=10, strategy="dynamic"), "continuous", "while the last batch ends"),
        (replace(CALM, inter_token_ms=100.0), "fewer seats", "100 ms, not within the required 75 ms"),
        (replace(CALM, inter_token_ms=100.0, adaptive=True), "more instances", "100 ms, not within the required 75 ms"),
        (replace(CALM, mean_batch=3.0), "nothing", "the mean batch is 3.0 of 32 seats"),
        (replace(CALM, mean_batch=3.0, strategy="dynamic"), "a longer window", "the mean batch is 3.0 of 32 seats"),
        (replace(CALM, kv_usage_ratio=0.95), "limit.memory_aware", "95% of the KV cache is in use"),
        (replace(CALM, preemptions=7), "limit.memory_aware", "preempted 7 sequences"),
    ],
)
def test_the_reading_guide(traffic: Traffic, do: str, because: str) -> None:
    """What was seen leads to one thing to do, with the numbers that speak for it."""
    (advice,) = recommend(Needs(), traffic).advice
    assert do in advice.do
    assert because in advice.because


def test_the_operators_own_promise_counts_before_the_presets() -> None:
    """50 ms between tokens is fine under 75 and too slow under 40."""
    (advice,) = recommend(Needs(inter_token_slo_ms=40), CALM).advice
    assert "the required 40 ms" in advice.because


def test_without_a_server_there_is_no_advice() -> None:
    """No advice follows from traffic that was not measured."""
    assert recommend(Needs()).advice == ()


traffics = st.builds(
    Traffic,
    over_s=st.just(5.0),
    strategy=st.sampled_from(["static", "dynamic", "continuous"]),
    adaptive=st.booleans(),
    limit=st.integers(1, 100),
    ceiling=st.integers(100, 200),
    seats_taken=st.integers(0, 100),
    queued_before=st.integers(0, 100),
    queued=st.integers(0, 100),
    arrivals=st.integers(0, 100),
    kv_usage_ratio=st.floats(0, 1),
    inter_token_slo_ms=st.floats(1, 1000),
    mean_batch=st.none() | st.floats(0, 100),
    inter_token_ms=st.none() | st.floats(0, 1000),
    preemptions=st.integers(0, 3),
)


@given(traffics)
def test_more_seats_are_never_advised_while_the_time_between_tokens_is_broken(traffic: Traffic) -> None:
    """A latency breach beats load; and there is always an answer."""
    advice = recommend(Needs(), traffic).advice
    assert advice
    if traffic.inter_token_ms is not None and traffic.inter_token_ms > traffic.inter_token_slo_ms:
        assert not any(one.do.startswith("more seats") for one in advice)
