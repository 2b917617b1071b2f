"""The gate's time-outs in virtual time: each comes at its own time, and ends one request once."""

from __future__ import annotations

import asyncio
import time

import pytest
from gate_state import assert_at_rest, outcomes
from small_presets import small_preset, terms
from virtual_time import now_s, on_virtual_time

from headway.admission.gate import Gate
from headway.errors import Expired, Refused, TimedOut
from headway_policies import Desk, Ending, PriorityClass, Reason, Timeouts


@on_virtual_time
async def test_the_queue_time_out_comes_exactly_on_time() -> None:
    """Ten seconds in the queue are ten seconds, and the reason names them."""
    gate = Gate(small_preset())
    gate.enter()
    begun_s = now_s()
    permit = gate.enter()
    with pytest.raises(Expired) as caught:
        await permit.admitted()
    assert now_s() - begun_s == pytest.approx(10.0, abs=1e-6)
    assert (caught.value.reason, caught.value.status) == (Reason.QUEUE_TIMEOUT, 503)
    assert outcomes(gate) == {"expired_queued": 1}


@on_virtual_time
async def test_later_arrivals_do_not_prolong_the_wait_of_the_first() -> None:
    """The time-out of the first waiting request runs from its own arrival, whatever arrives after it."""
    gate = Gate(small_preset())
    gate.enter()
    begun_s, first = now_s(), gate.enter()
    waiting = asyncio.create_task(first.admitted())
    for _ in range(9):
        await asyncio.sleep(1.0)
        gate.enter()
    with pytest.raises(Expired):
        await waiting
    assert now_s() - begun_s == pytest.approx(10.0, abs=1e-6)


@on_virtual_time
async def test_the_total_time_out_calls_for_an_abort_and_holds_the_seat() -> None:
    """After the total time-out on_abort is called once, the request is settled, its seat freed when it leaves."""
    gate, aborted = Gate(small_preset()), list[float]()
    begun_s, permit = now_s(), gate.enter(timeouts=Timeouts(total_s=5.0))
    permit.on_abort = lambda: aborted.append(now_s() - begun_s)
    follower = gate.enter()
    await asyncio.sleep(6.0)
    assert aborted == [pytest.approx(5.0, abs=1e-6)]
    assert isinstance(permit.refused, TimedOut)
    assert permit.refused.status == 504
    assert follower.dispatched_s is None
    permit.leave(Ending.FAILED)
    assert follower.dispatched_s is not None
    follower.leave(Ending.COMPLETED)
    assert outcomes(gate) == {"expired_running": 1, "completed": 1}
    assert_at_rest(gate)


@pytest.mark.parametrize("ending", list(Ending))
@on_virtual_time
async def test_ending_after_the_deadline_and_before_the_timer_is_settled_once(ending: Ending) -> None:
    """A busy loop may be late: a request that ends then is settled as expired, and all behind it are served."""
    gate = Gate(small_preset())
    running, waiting = gate.enter(timeouts=Timeouts(total_s=5.0)), gate.enter(timeouts=Timeouts(total_s=6.0))
    third, late_s = gate.enter(timeouts=Timeouts(total_s=50.0)), now_s() + 7.0
    gate.now_s = lambda: late_s
    waiting.leave(ending)
    running.leave(ending)
    await asyncio.wait_for(third.admitted(), 1.0)
    third.leave(Ending.COMPLETED)
    assert outcomes(gate) == {"expired_queued": 1, "expired_running": 1, "completed": 1}
    assert_at_rest(gate)


@on_virtual_time
async def test_there_is_one_timer_however_many_wait() -> None:
    """A thousand deadlines need one timer; none remains after the gate was closed."""
    gate = Gate(small_preset(most_waiting=2_000, classes={"normal": terms(1, places=2_000)}))
    loop = asyncio.get_running_loop()
    before = _timers(loop)
    permits = [gate.enter(timeouts=Timeouts(total_s=1_000.0 - number % 7)) for number in range(1_000)]
    assert _timers(loop) - before == 1
    for permit in permits:
        permit.leave(Ending.CANCELLED)
    assert _timers(loop) - before <= 1
    gate.close()
    assert _timers(loop) == before
    assert_at_rest(gate)


def _timers(loop: asyncio.AbstractEventLoop) -> int:
    scheduled: list[asyncio.TimerHandle] = loop._scheduled  # type: ignore[attr-defined]  # asyncio shows them nowhere else
    return sum(not timer.cancelled() for timer in scheduled)


@on_virtual_time
async def test_an_idle_gate_does_nothing() -> None:
    """No polling: without requests the loop has no timer, and an hour passes without a tick."""
    gate, ticks = Gate(small_preset()), list[float]()
    gate._tick = lambda: ticks.append(now_s())  # type: ignore[method-assign]  # counts, in place of the real one
    await asyncio.sleep(3_600)
    assert ticks == []
    assert gate._timer is None


STAGES = {
    "queue": (Timeouts(queue_s=3), 3.0, Expired, Reason.QUEUE_TIMEOUT),
    "total, while waiting": (Timeouts(total_s=4), 4.0, Expired, Reason.QUEUE_TIMEOUT),
    "first token": (Timeouts(first_token_s=12), 12.0, TimedOut, Reason.FIRST_TOKEN_TIMEOUT),
    "stall": (Timeouts(stall_s=3), 18.0, TimedOut, Reason.STALL_TIMEOUT),
    "total": (Timeouts(total_s=17), 17.0, TimedOut, Reason.TOTAL_TIMEOUT),
    "a longer one than the class has": (Timeouts(total_s=900), 60.0, TimedOut, Reason.TOTAL_TIMEOUT),
}


@pytest.mark.parametrize(("asked", "ends_s", "kind", "reason"), STAGES.values(), ids=STAGES)
@on_virtual_time
async def test_each_stage_ends_at_its_own_time(
    asked: Timeouts, ends_s: float, kind: type[Refused], reason: Reason
) -> None:
    """Dispatched at 8 s, a token at 14 s and one at 15 s, then none: each time-out comes exactly on time."""
    gate = Gate(small_preset())
    holder, permit = gate.enter(), gate.enter(timeouts=asked)
    loop = asyncio.get_running_loop()
    loop.call_later(8.0, holder.leave, Ending.COMPLETED)
    loop.call_later(14.0, permit.first_token)
    loop.call_later(15.0, permit.progress)
    ended_s: list[float] = []
    permit.on_abort = lambda: ended_s.append(now_s())
    waited = await asyncio.gather(permit.admitted(), return_exceptions=True)
    if isinstance(waited[0], Refused):
        ended_s.append(now_s())
    await asyncio.sleep(100)
    assert ended_s == [pytest.approx(ends_s, abs=1e-6)]
    assert isinstance(permit.refused, kind)
    assert permit.refused.reason is reason
    permit.leave(Ending.FAILED)
    assert_at_rest(gate)


@on_virtual_time
async def test_very_many_that_expire_at_once_do_not_block_the_loop() -> None:
    """20,000 queue time-outs at one moment: all on time, and others get their turn in between."""
    many = 20_000
    classes = {"normal": terms(1, places=many)}
    gate = Gate(small_preset(most_waiting=many, classes=classes))
    gate.enter()
    permits = [gate.enter() for _ in range(many)]
    turns: list[int] = []

    def count() -> None:
        gone = sum(permit.refused is not None for permit in permits[:: many // 100])
        turns.append(gone)
        if gone < 100:
            loop.call_soon(count)

    loop = asyncio.get_running_loop()
    loop.call_at(10.0, count)
    await asyncio.sleep(10.5)
    assert all(isinstance(permit.refused, Expired) for permit in permits)
    assert len(set(turns)) > 10
    for permit in permits:
        permit.leave(Ending.FAILED)


@on_virtual_time
async def test_tokens_cost_the_desk_nothing_where_no_stall_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a stall time-out the desk gets the first token and no other; with one of each."""
    heard: list[int] = []
    monkeypatch.setattr(Desk, "token_batch", lambda desk, ticket_id, now_s: heard.append(ticket_id) or [])
    stalling = PriorityClass(priority=1, max_waiting=9, stall_timeout_s=5.0)
    gate = Gate(small_preset(3, classes={"plain": terms(2), "timed": stalling}))
    permits = [gate.enter("plain"), gate.enter("timed"), gate.enter("plain", timeouts=Timeouts(stall_s=9.0))]
    for permit in permits:
        permit.first_token()
        permit.progress()
        permit.progress()
        permit.leave(Ending.COMPLETED)
    assert heard == [2, 2, 3, 3]
    assert_at_rest(gate)


@on_virtual_time
async def test_the_wall_clock_may_jump(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall-clock jump of an hour ends no request and prolongs none: only the loop's own clock counts."""
    gate = Gate(small_preset(1))
    gate.enter().occupy(1)
    waiting = gate.enter()
    waits = asyncio.create_task(waiting.admitted())
    for jump_s in (3600.0, -3600.0):
        monkeypatch.setattr(time, "time", lambda jump_s=jump_s: 1e9 + jump_s)
        await asyncio.sleep(4.9)
        assert not waits.done()
    with pytest.raises(Expired):
        await asyncio.wait_for(waits, 0.3)


@on_virtual_time
async def test_a_loop_that_was_blocked_expires_the_late_and_dispatches_nothing_too_late() -> None:
    """The loop wakes two seconds after two deadlines, with a seat free: both expire, the one in time goes."""
    gate = Gate(small_preset(1))
    holder = gate.enter()
    late = [asyncio.create_task(gate.enter(timeouts=Timeouts(total_s=5.0)).admitted()) for _ in range(2)]
    in_time = asyncio.create_task(gate.enter(timeouts=Timeouts(total_s=9.0)).admitted())
    await asyncio.sleep(0)
    now_s = gate.now_s
    gate.now_s = lambda: now_s() + 7.0  # the clock's reading when the loop runs again
    holder.leave(Ending.COMPLETED)
    results = await asyncio.gather(*late, in_time, return_exceptions=True)
    assert [type(one) for one in results] == [Expired, Expired, type(None)]
