"""The log of the objectives: once the engine is measured, and again after a switch."""

from __future__ import annotations

import logging

import pytest
from small_presets import small_preset, terms
from virtual_time import on_virtual_time

from headway.admission import Gate
from headway.supervision import ObjectivesLog
from headway_policies import Load, Preset

LOGGER = "headway.supervision.objectives_log"


def stating(name: str, ttft: float | str, inter_token: float | str) -> Preset:
    """A preset with these objectives for its urgent class."""
    classes = {"chat": terms(2, ttft_slo_s=ttft, inter_token_slo_ms=inter_token), "batch": terms(1)}
    return small_preset(4, name=name, classes=classes)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """What was logged since the last look."""
    found = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == LOGGER]
    caplog.clear()
    return found


@on_virtual_time
async def test_the_objectives_are_one_line_when_the_engine_is_measured(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing before, nothing again; another preset is another line, and what the engine misses alone a warning."""
    caplog.set_level(logging.INFO, LOGGER)
    gate, now_s = Gate(stating("own", "8x", "2.5x")), 0.0
    objectives_log = ObjectivesLog(gate)
    gate.now_s = lambda: now_s
    objectives_log.report()
    assert lines(caplog) == []
    for _ in range(200):
        now_s += 0.04
        gate.observe(Load(1, 0, 0.1, 0.04, kv_capacity_tokens=1000))
    objectives_log.report()
    objectives_log.report()
    assert lines(caplog) == [
        (
            "INFO",
            "objectives of own on this engine: chat: first token within 320 ms (8x of this engine's 40 ms for a "
            "short prompt), 100 ms a token (2.5x)",
        )
    ]
    gate.switch(stating("strict", 1.0, 20.0))
    objectives_log.report()
    assert lines(caplog) == [
        ("INFO", "objectives of strict on this engine: chat: first token within 1 s, 20 ms a token"),
        (
            "WARNING",
            "strict asks 20 ms a token of chat; this engine takes 40 ms for a request alone: it refuses nothing for "
            "that",
        ),
    ]
    gate.close()
