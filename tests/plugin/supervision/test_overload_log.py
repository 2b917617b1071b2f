"""The log of an overload: one line every ten seconds while requests are refused, and one when it is over."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import pytest
from small_presets import small_preset, terms
from virtual_time import on_virtual_time

from headway.admission import Gate
from headway.background_tasks import report_every
from headway.errors import Refused
from headway.supervision import LOG_EVERY_S, OverloadLog
from headway_policies import Ending, Reason
from headway_policies.diagnosis import FOR_LOAD
from headway_policies.request import REFUSED, Outcome

LOGGER = "headway.supervision.overload_log"


@on_virtual_time
async def test_an_overload_is_one_line_every_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    """One seat, one place: of five arrivals three are refused. Then none; after that the log is silent again."""
    caplog.set_level(logging.INFO, LOGGER)
    gate = Gate(small_preset(1, classes={"normal": terms(1, places=1, queue_s=None, total_s=None)}))
    logging_task = asyncio.create_task(report_every(LOG_EVERY_S, OverloadLog(gate).report))
    await asyncio.sleep(4)
    first = gate.enter()
    waiting = gate.enter()
    for _ in range(3):
        with suppress(Refused):
            gate.enter()
    await asyncio.sleep(16)
    first.leave(Ending.COMPLETED)
    waiting.leave(Ending.COMPLETED)
    await asyncio.sleep(100)
    logging_task.cancel()
    lines = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == LOGGER]
    assert lines == [
        (
            "WARNING",
            "overload: 3 requests refused and 5 arrived within 10 s (class_queue_full: 3); "
            "waiting: 1, the oldest for 6.0 s",
        ),
        ("INFO", "overload over: none refused within 10 s; refused since it began: 3"),
    ]


@on_virtual_time
async def test_one_refused_request_is_one_request(caplog: pytest.LogCaptureFixture) -> None:
    """In the singular."""
    gate = Gate(small_preset(1, classes={"normal": terms(1, places=0, queue_s=None, total_s=None)}))
    overload = OverloadLog(gate)
    permit = gate.enter()
    with suppress(Refused):
        gate.enter()
    overload.report()
    (line,) = (record.getMessage() for record in caplog.records if record.name == LOGGER)
    assert line.startswith("overload: 1 request refused and 2 arrived within 10 s")
    permit.leave(Ending.CANCELLED)


@on_virtual_time
async def test_the_classes_whose_waits_are_cut_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """A queue that has stood above the objective of its class, with what was refused for it."""
    classes = {"normal": terms(1, places=3, queue_s=None, total_s=None, ttft_slo_s=1.0)}
    gate = Gate(small_preset(1, classes=classes))
    overload = OverloadLog(gate)
    permits = [gate.enter() for _ in range(4)]
    await asyncio.sleep(5)
    with suppress(Refused):
        gate.enter()
    overload.report()
    (line,) = (record.getMessage() for record in caplog.records if record.name == LOGGER)
    assert line.endswith("waiting: 3, the oldest for 5.0 s; waits are cut to the objective of: normal")
    for permit in permits:
        permit.leave(Ending.CANCELLED)


def test_every_refusal_is_an_overload_or_says_something_else() -> None:
    """A reason that is added later is decided upon here: a lack of capacity, or the state of the server or engine."""
    others = {reason for reason in Reason if reason not in FOR_LOAD}
    assert others == {
        Reason.STALL_TIMEOUT,
        Reason.TOTAL_TIMEOUT,
        Reason.DRAINING,
        Reason.NOT_READY,
        Reason.ENGINE_LOST,
        Reason.OUT_OF_MEMORY,
        Reason.POISON,
    }
    assert {REFUSED[reason] for reason in FOR_LOAD} == {
        Outcome.REJECTED_FULL,
        Outcome.REJECTED_LIMIT,
        Outcome.SHED,
        Outcome.EXPIRED_QUEUED,
        Outcome.EXPIRED_RUNNING,
    }
