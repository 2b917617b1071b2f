"""The recommended preset."""

from __future__ import annotations

from itertools import product

import pytest

from headway_policies import bundled_presets
from headway_policies.preset.recommend import Needs, recommend


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
    """All but ``serial`` and the ``dynamic`` ones, which are chosen by name; and no answer comes without a reason."""
    flags = (False, True)
    every = [Needs(*one) for one in product(flags, flags, flags, (None, 60.0))]
    by_name = {"serial", "dynamic", "dynamic-latency", "dynamic-throughput"}
    assert {recommend(needs).preset for needs in every} == set(bundled_presets()) - by_name
    assert all(recommend(needs).because for needs in every)


def test_a_promise_is_named_in_its_reason() -> None:
    """The operator sees the number they gave."""
    assert "60 ms" in recommend(Needs(inter_token_slo_ms=60)).because
