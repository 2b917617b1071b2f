"""What a server says at its start about what it cannot do."""

from __future__ import annotations

import logging
from argparse import Namespace

import pytest

from headway.operator import Listed
from headway.vllm_adapter.endpoint import _log_degraded_modes
from headway_policies import bundled_presets

LOGGER = "headway.vllm_adapter.endpoint"


@pytest.mark.parametrize(("ceiling", "lines"), [(64, 0), (8, 1)])
def test_a_preset_that_asks_for_more_seats_than_the_engine_has_is_named(
    ceiling: int, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    """By its name, its file and its number: with a folder of presets it may be any of many."""
    caplog.set_level(logging.WARNING, LOGGER)
    largest = Listed(bundled_presets()["throughput"], "presets/night.toml")
    _log_degraded_modes(largest, ceiling, Namespace(scheduling_policy="priority"))
    assert [record.getMessage() for record in caplog.records] == [
        "the engine has 8 seats at most, but preset throughput (presets/night.toml) asks for 64; start with "
        "--max-num-seqs 64 to use them"
    ] * lines
