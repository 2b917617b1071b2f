"""Tests of settings without effect: which they are, and that a comparison leaves them out."""

from __future__ import annotations

import pytest

from headway_policies.preset import Change, bundled_presets, differences, effective, without_effect
from headway_policies.preset.inert import USED_BY

PRESETS = bundled_presets()


@pytest.mark.parametrize("name", PRESETS)
def test_a_window_has_an_effect_under_dynamic_only(name: str) -> None:
    """Continuous batching waits for nothing, static for a full batch."""
    preset = PRESETS[name]
    ignored = without_effect(preset.settings())
    assert ("batching.window_ms" in ignored) == (preset.batching.strategy != "dynamic")
    for key, strategies in USED_BY.items():
        full = f"batching.{key}"
        if full in preset.settings():
            assert (full in effective(preset.settings())) == (preset.batching.strategy in strategies)


def test_an_objective_of_the_limit_has_an_effect_where_the_limit_moves() -> None:
    """A fixed limit keeps none, unless it follows the memory."""
    serial, interactive = PRESETS["serial"], PRESETS["interactive"]
    assert without_effect(serial.settings())["limit.inter_token_slo_ms"] == "under fixed"
    assert "limit.inter_token_slo_ms" in effective(interactive.settings())
    aware = serial.model_copy(update={"limit": serial.limit.model_copy(update={"memory_aware": True})})
    assert "limit.inter_token_slo_ms" in effective(aware.settings())


@pytest.mark.parametrize("key", ["inter_token_slo_ms", "set_point_ratio"])
def test_a_knee_keeps_no_objective(key: str) -> None:
    """A setting of how well one is kept has no effect; the bounds have."""
    settings = PRESETS["throughput"].settings()
    assert without_effect(settings)[f"limit.{key}"] == "under knee"
    assert "limit.min_seats" in effective(settings)
    assert f"limit.{key}" in effective(PRESETS["balanced"].settings())


def test_the_settings_of_cached_prefixes_have_an_effect_under_that_order_only() -> None:
    """Two presets that do not order by prefixes do not differ by its quantum."""
    balanced = PRESETS["balanced"]
    assert without_effect(balanced.settings())["ordering.prefix_quantum_tokens"] == "under fair"
    assert without_effect(balanced.settings())["ordering.prefix_max_overtakes"] == "under fair"
    ordering = balanced.ordering.model_copy(update={"inside": "prefix"})
    by_prefix = balanced.model_copy(update={"ordering": ordering})
    assert {"ordering.prefix_quantum_tokens", "ordering.prefix_max_overtakes"} <= set(effective(by_prefix.settings()))


def test_two_continuous_presets_do_not_differ_by_their_windows() -> None:
    """A preset that uses its window does, even where the number is the same."""

    def differ(one: str, other: str) -> set[str]:
        found = differences(effective(PRESETS[one].settings()), effective(PRESETS[other].settings()))
        return {change.setting for change in found}

    assert "batching.window_ms" not in differ("latency", "throughput")
    assert "batching.seats" in differ("latency", "throughput")
    assert PRESETS["balanced"].batching.window_ms == PRESETS["dynamic"].batching.window_ms
    assert "batching.window_ms" in differ("balanced", "dynamic")


def test_differences_keep_the_order_and_name_what_is_missing() -> None:
    """Settings that only one side has are None on the other."""
    before = {"a": 1, "b": 2, "c": 3}
    after = {"a": 1, "b": 5, "d": 4}
    assert differences(before, after) == [Change("b", 2, 5), Change("c", 3, None), Change("d", None, 4)]
