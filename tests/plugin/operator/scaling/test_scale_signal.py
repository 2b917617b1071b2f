"""The number of one server: renewed by its task, never by a scrape, and an error does not end it."""

from __future__ import annotations

import asyncio
import logging

import pytest
from small_presets import small_preset
from steady_traffic import steady_traffic
from virtual_time import on_virtual_time

from headway.admission import Gate
from headway.operator.scaling.load_reader import LoadReader
from headway.operator.scaling.scale_signal import EVERY_S, OwnNeed, ScaleSignal


@on_virtual_time
async def test_a_server_asks_for_its_part() -> None:
    """Three quarters of its seats are all that 0.8 of them is wanted for; nothing when it is idle."""
    gate = Gate(small_preset(8))
    signal = ScaleSignal(LoadReader(gate, lambda: 1), OwnNeed())
    task = asyncio.create_task(signal.run())
    await asyncio.sleep(0)
    assert signal.instances == 0.0
    await steady_traffic(gate, 3.0, 2.0, 200.0)
    assert signal.instances == pytest.approx(6.0 / 6.4, rel=0.1)
    await asyncio.sleep(600)
    assert signal.instances == pytest.approx(0.0, abs=0.01)
    task.cancel()
    gate.close()


@on_virtual_time
async def test_an_error_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    """The error is logged, the last number stands, and the next look is as ever."""
    gate, broken = Gate(small_preset(4)), True

    def instances() -> int:
        if broken:
            raise LookupError("gone")
        return 1

    signal = ScaleSignal(LoadReader(gate, instances), OwnNeed(), 3.0)
    task = asyncio.create_task(signal.run())
    await asyncio.sleep(EVERY_S / 2)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert signal.instances == 3.0
    broken = False
    await asyncio.sleep(EVERY_S)
    assert signal.instances == 0.0
    task.cancel()
    gate.close()
