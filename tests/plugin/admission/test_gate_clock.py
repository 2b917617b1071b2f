"""A process that stood still: its own pause is no stall of the engine, and no time-out moves by more than the pause."""

from __future__ import annotations

import asyncio

import pytest
from hand_gate import HandGate
from small_presets import small_preset, terms
from virtual_time import on_virtual_time

from headway.admission.permit import Permit
from headway.supervision.loop_lag import EVERY_S, watch_loop
from headway_policies import Ending, Outcome, Reason
from headway_policies.desk import Phase

STALL_S, FIRST_TOKEN_S, TOTAL_S = 2.0, 3.0, 30.0
CLASSES = {
    "usual": terms(1, queue_s=5.0, total_s=TOTAL_S, stall_timeout_s=STALL_S, first_token_timeout_s=FIRST_TOKEN_S)
}


def running(gate: HandGate, *, streams: bool) -> Permit:
    """A request that the engine runs, with or without a first token."""
    permit = gate.enter()
    permit.occupy(1)
    if streams:
        permit.first_token()
    return permit


@pytest.mark.parametrize("pause_s", [0.4, 1.05, 10.0, 100.0])
@pytest.mark.parametrize("streams", [True, False], ids=["a stream", "the first token"])
def test_what_the_engine_sent_meanwhile_is_read_before_it_is_given_up(pause_s: float, streams: bool) -> None:
    """The pause covers the time-out: tokens that are read after it save the request, silence ends it."""
    gate = HandGate(small_preset(2, classes=CLASSES))
    alive, silent = (running(gate, streams=streams) for _ in range(2))
    gate.wait((STALL_S if streams else FIRST_TOKEN_S) - 0.1)
    gate.stand_still(pause_s)
    assert (alive.reason, silent.reason) == (None, None)
    (alive.progress if streams else alive.first_token)()
    for _ in range(8):
        gate.wait(pause_s / 8)
        if alive.phase is Phase.RUNNING:
            alive.progress()
    total = gate.at_s >= TOTAL_S
    assert silent.reason is (Reason.STALL_TIMEOUT if streams else Reason.FIRST_TOKEN_TIMEOUT)
    assert alive.reason is (Reason.TOTAL_TIMEOUT if total else None)


def test_a_request_that_waits_expires_however_long_the_pause_was() -> None:
    """Nothing that the engine sent would change that."""
    gate = HandGate(small_preset(1, classes=CLASSES))
    running(gate, streams=True)
    waiting = gate.enter()
    gate.stand_still(10.0)
    assert waiting.reason is Reason.QUEUE_TIMEOUT


def test_a_timer_in_time_moves_nothing() -> None:
    """A loop that is a little late is a loop."""
    gate = HandGate(small_preset(1, classes=CLASSES))
    permit = running(gate, streams=True)
    gate.stand_still(STALL_S + 0.2)
    assert permit.reason is Reason.STALL_TIMEOUT
    permit.leave(Ending.FAILED)
    assert gate.desk.ledger.classes["usual"].outcomes == {Outcome.EXPIRED_RUNNING: 1}


def test_the_lag_of_the_loop_counts_where_the_pause_began_just_before_a_time_out() -> None:
    """The timer of the time-out itself is hardly late then; the look at the loop is, and it comes first."""
    gate = HandGate(small_preset(1, classes=CLASSES))
    permit = running(gate, streams=True)
    gate.at_s = STALL_S + 0.1
    gate.report_lag(STALL_S - EVERY_S)
    gate.stand_still(0.0)
    assert permit.reason is None
    permit.progress()
    gate.wait(STALL_S - 0.1)
    assert permit.reason is None
    assert gate.loop_lag.read(gate.at_s).largest == STALL_S - EVERY_S


@on_virtual_time
async def test_the_loop_is_looked_at_five_times_a_second() -> None:
    """A lag of nothing on a loop that has nothing else to do, until the watch ends."""
    seen: list[float] = []
    watch = asyncio.create_task(watch_loop(seen.append))
    await asyncio.sleep(10.1)
    watch.cancel()
    await asyncio.sleep(10.0)
    assert len(seen) == 50
    assert max(seen) == pytest.approx(0.0, abs=1e-6)
