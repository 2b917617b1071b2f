"""What a server says at its start about what it cannot do."""

from __future__ import annotations

import logging
from argparse import Namespace
from types import SimpleNamespace

import pytest
from small_presets import small_preset

from headway.operator import Listed
from headway.vllm_adapter.endpoint import _log_degraded_modes, _log_prefix_caching_off
from headway_policies import bundled_presets
from headway_policies.limits import LimitSettings

LOGGER = "headway.vllm_adapter.endpoint"


@pytest.mark.parametrize(("ceiling", "lines"), [(64, 0), (8, 1)])
@pytest.mark.parametrize(
    ("limit", "verb"),
    [(LimitSettings(), "asks for"), (LimitSettings(policy="aimd"), "starts at")],
    ids=["fixed", "follows"],
)
def test_a_preset_that_asks_for_more_seats_than_the_engine_has_is_named(
    limit: LimitSettings, verb: str, ceiling: int, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    """By its name, its file and its number: with a folder of presets it may be any of many."""
    caplog.set_level(logging.WARNING, LOGGER)
    preset = small_preset(64, name="night").model_copy(update={"limit": limit})
    _log_degraded_modes(Listed(preset, "presets/night.toml"), ceiling, Namespace(scheduling_policy="priority"))
    assert [record.getMessage() for record in caplog.records] == [
        f"the engine has 8 seats at most, but preset night (presets/night.toml) {verb} 64; start with "
        "--max-num-seqs 64 to use them"
    ] * lines


@pytest.mark.parametrize(
    ("inside", "caches", "lines"), [("prefix", False, 1), ("prefix", True, 0), ("prefix", None, 0), ("fair", False, 0)]
)
def test_an_order_by_prefixes_that_the_engine_does_not_cache_is_named(
    inside: str, caches: bool | None, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Where it is known that nothing is cached; the first such preset, by name and file, with what to do."""
    caplog.set_level(logging.WARNING, LOGGER)
    listed = [
        Listed(bundled_presets()["balanced"], "bundled"),
        Listed(small_preset(inside=inside), "presets/mine.toml"),
    ]
    _log_prefix_caching_off(listed, SimpleNamespace(cache_config=SimpleNamespace(enable_prefix_caching=caches)))
    _log_prefix_caching_off(listed, SimpleNamespace())
    assert [record.getMessage() for record in caplog.records] == [
        'preset small (presets/mine.toml) orders by cached prefixes (inside = "prefix"), but the engine caches none; '
        'start with --enable-prefix-caching, or use inside = "fair"'
    ] * lines
