"""The log of an adaptive window: a line when it has moved, with the reason, and no line when it has not."""

from __future__ import annotations

import asyncio
import logging

import pytest
from small_presets import small_preset, terms
from virtual_time import on_virtual_time

from headway.admission import Gate
from headway.background_tasks import report_every
from headway.supervision import LOG_EVERY_S, WindowLog
from headway_policies import Ending
from headway_policies.batching import WindowReason

LOGGER = "headway.supervision.window_log"


def gate_with(window: str = "adaptive", strategy: str = "dynamic") -> Gate:
    """Eight seats, a window of 200 ms at most, an objective of 1 s to the first token."""
    classes = {"normal": terms(1, queue_s=None, total_s=None, ttft_slo_s=1.0)}
    return Gate(small_preset(8, classes=classes, batching={"strategy": strategy, "window": window, "window_ms": 200.0}))


async def serve(gate: Gate, times: int, first_token_s: float) -> None:
    """So many requests, one after the other: each gets its first token this long after its dispatch, and ends."""
    for _ in range(times):
        permit = gate.enter()
        await permit.admitted()
        await asyncio.sleep(first_token_s)
        permit.first_token()
        permit.leave(Ending.COMPLETED)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


@on_virtual_time
async def test_late_first_tokens_close_the_window_and_one_line_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """First tokens after the objective shut the window; while it stays shut, no further line."""
    caplog.set_level(logging.INFO, LOGGER)
    gate = gate_with()
    assert gate.desk.read(gate.now_s()).window_s == 0.2
    logging_task = asyncio.create_task(report_every(LOG_EVERY_S, WindowLog(gate).report))
    await serve(gate, 3, first_token_s=2.0)
    assert gate.desk.read(gate.now_s()).window_s == 0.0
    assert gate.desk.read(gate.now_s()).window_reason is WindowReason.LATENCY
    await asyncio.sleep(100)
    logging_task.cancel()
    assert lines(caplog) == [
        "batch window: 0 ms, was 200 ms, of 200 ms at most (first tokens come near their objective, or after it)"
    ]


@on_virtual_time
async def test_an_idle_server_closes_its_window(caplog: pytest.LogCaptureFixture) -> None:
    """Requests a minute apart and early first tokens: the next one would wait for none, and does not."""
    caplog.set_level(logging.INFO, LOGGER)
    gate = gate_with()
    log = WindowLog(gate)
    for _ in range(6):
        await serve(gate, 1, first_token_s=0.05)
        await asyncio.sleep(60)
    log.report()
    (line,) = lines(caplog)
    assert line.startswith("batch window: 0 ms, was 200 ms")
    assert "idle" in line
    before_s = gate.now_s()
    permit = gate.enter()
    await permit.admitted()
    assert gate.now_s() == before_s
    permit.leave(Ending.COMPLETED)


@pytest.mark.parametrize(("window", "strategy"), [("fixed", "dynamic"), ("adaptive", "continuous")])
@on_virtual_time
async def test_a_window_that_does_not_adapt_is_not_logged(
    window: str, strategy: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither a fixed one nor one that its strategy does not use."""
    caplog.set_level(logging.INFO, LOGGER)
    gate = gate_with(window, strategy)
    log = WindowLog(gate)
    await serve(gate, 6, first_token_s=2.0)
    log.report()
    assert lines(caplog) == []
