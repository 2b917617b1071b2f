"""Silences of alerts: how long they last, who ends them, how many there may be, and what the audit says."""

from __future__ import annotations

import asyncio

import pytest
from engines import TrippingEngine, installed
from small_presets import small_preset
from virtual_time import on_virtual_time

from headway.audit import Caller
from headway.errors import CommandConflictError
from headway.operator import Control
from headway.operator.commands.silences import MAX_SILENCES

ANN = Caller("ann", "operator")


def server() -> Control:
    """The control of an idle server."""
    return installed(TrippingEngine(), small_preset(2))[0]


def silent(control: Control) -> list[str]:
    """The names of the alerts that are silent."""
    return [silence.alert for silence in control.status().silences]


@on_virtual_time
async def test_a_silence_ends_by_itself() -> None:
    """Until then the status has its author, its reason and its end."""
    control = server()
    control.silences.silence("HeadwayQueueLong", 60.0, ANN, "load test")
    (silence,) = control.status().silences
    assert (silence.alert, silence.actor, silence.reason) == ("HeadwayQueueLong", "ann", "load test")
    assert silence.ends > silence.since
    await asyncio.sleep(59.0)
    assert silent(control) == ["HeadwayQueueLong"]
    await asyncio.sleep(1.5)
    assert silent(control) == []


@on_virtual_time
async def test_a_second_silence_replaces_the_first() -> None:
    """Also by a shorter one; the audit has both."""
    control = server()
    control.silences.silence("A", 600.0, ANN)
    control.silences.silence("B", 300.0, ANN)
    control.silences.silence("A", 30.0, ANN)
    assert silent(control) == ["A", "B"]
    await asyncio.sleep(31.0)
    assert silent(control) == ["B"]
    results = [entry.result for entry in reversed(control.audit.entries(9))]
    assert results == ["applied: A, for 10 min", "applied: B, for 5 min", "applied: A, for 30 s"]


@on_virtual_time
async def test_an_operator_ends_a_silence() -> None:
    """The end of a silence that there is not changes nothing and is not recorded."""
    control = server()
    control.silences.silence("A", 600.0, ANN)
    control.silences.end("A", ANN)
    assert silent(control) == []
    assert control.audit.entries(1)[0].result == "applied: A is silent no longer"
    recorded = control.audit.recorded
    control.silences.end("A", ANN)
    assert control.audit.recorded == recorded


@on_virtual_time
async def test_the_number_of_silences_is_bounded() -> None:
    """One more is refused, and recorded as refused; another silence of the same alert is not one more."""
    control = server()
    for number in range(MAX_SILENCES):
        control.silences.silence(f"A{number}", 600.0 + number, ANN)
    control.silences.silence("A0", 500.0, ANN)
    with pytest.raises(CommandConflictError, match="end one"):
        control.silences.silence("B", 1.0, ANN)
    assert len(silent(control)) == MAX_SILENCES
    assert control.audit.entries(1)[0].result.startswith("refused: ")
    await asyncio.sleep(501.0)
    control.silences.silence("B", 1.0, ANN)
    assert "B" in silent(control)
