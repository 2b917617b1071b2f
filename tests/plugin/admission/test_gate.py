"""The gate in virtual time: who waits, who is dispatched, and what it keeps afterwards."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from contextlib import suppress

import pytest
from gate_state import assert_at_rest, outcomes, seated, served
from gc_paused import gc_paused
from small_presets import small_preset, terms
from tiers import LONG
from virtual_time import now_s, on_virtual_time, settle

from headway.admission.gate import Gate, Permit
from headway.errors import Refused, Rejected, UnknownClassError
from headway_policies import CapReason, Ending, Reason

TRIES = 1_000 if LONG else 100


@on_virtual_time
async def test_seats_are_taken_and_handed_on_in_order() -> None:
    """Two seats, five requests: first come first served, each as soon as a seat is free."""
    gate, log = Gate(small_preset(2)), list[str]()
    begun_s = now_s()
    await asyncio.gather(*(served(gate, 1.0, log, name) for name in "abcde"))
    assert log == ["a", "b", "c", "d", "e"]
    assert now_s() - begun_s == pytest.approx(3.0)
    assert outcomes(gate) == {"completed": 5}
    assert_at_rest(gate)


@on_virtual_time
async def test_an_urgent_request_passes_those_that_wait() -> None:
    """A realtime request that comes last goes next."""
    gate, log = Gate(small_preset()), list[str]()
    urgencies = {"first": "normal", "batch": "batch", "normal": "normal", "urgent": "realtime"}
    await asyncio.gather(*(served(gate, 1.0, log, name, urgency) for name, urgency in urgencies.items()))
    assert log == ["first", "urgent", "normal", "batch"]


@on_virtual_time
async def test_a_full_queue_refuses_at_once() -> None:
    """No place to wait: Rejected without a turn of the loop, with the reason and whole seconds."""
    gate = Gate(small_preset(most_waiting=0))
    permit = gate.enter()
    with pytest.raises(Rejected) as caught:
        gate.enter("batch")
    assert (caught.value.reason, caught.value.status) == (Reason.QUEUE_FULL, 429)
    assert 1 <= caught.value.retry_after_s <= 30
    permit.leave(Ending.COMPLETED)
    assert outcomes(gate) == {"completed": 1, "rejected_full": 1}
    assert_at_rest(gate)


@on_virtual_time
async def test_refusals_leave_no_garbage() -> None:
    """At the door, in the queue, and while it runs: no error holds on to the request it ended, nor that one on to it.

    Else each would wait for Python's collector, which stops the loop, and runs rarely.
    """
    one_second = {"normal": terms(1, queue_s=1.0, total_s=2.0)}
    gate = Gate(small_preset(classes=one_second, most_waiting=40))

    async def refused(after_s: float) -> None:
        with suppress(Refused):
            async with seated(gate):
                await asyncio.sleep(after_s)

    async def all_refused() -> None:
        running = asyncio.create_task(refused(3.0))
        await asyncio.gather(*(refused(0.0) for _ in range(80)))
        await running

    await all_refused()
    with gc_paused():
        await all_refused()
        assert gc.collect() < 80
    assert outcomes(gate) == {"expired_queued": 80, "expired_running": 2, "rejected_full": 80}


@on_virtual_time
async def test_an_unknown_class_is_refused_by_name_and_counts_nowhere() -> None:
    """The caller's mistake names the classes there are and leaves the ledger alone."""
    gate = Gate(small_preset())
    with pytest.raises(UnknownClassError, match="'gold'; the classes are: realtime, normal, batch"):
        gate.enter("gold")
    assert outcomes(gate) == {}
    assert_at_rest(gate)


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [(Ending.FAILED, "failed"), (Ending.CANCELLED, "cancelled_running"), (Ending.COMPLETED, "completed")],
)
@on_virtual_time
async def test_a_request_is_settled_by_the_way_it_ends(ending: Ending, outcome: str) -> None:
    """The outcome is what its caller says; whatever it was, the next gets the seat."""
    gate = Gate(small_preset())
    gate.enter().leave(ending)
    assert outcomes(gate) == {outcome: 1}
    async with seated(gate):
        assert gate.desk.seats_taken == 1
    assert_at_rest(gate)


@on_virtual_time
async def test_a_request_cancelled_while_waiting_frees_its_place() -> None:
    """A waiting request that is cancelled leaves the queue; the one behind it is dispatched next."""
    gate, log = Gate(small_preset()), list[str]()
    tasks = [asyncio.create_task(served(gate, 1.0, log, name)) for name in "abc"]
    await settle()
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert log == ["a", "c"]
    assert outcomes(gate) == {"completed": 2, "cancelled_queued": 1}
    assert_at_rest(gate)


@on_virtual_time
async def test_a_request_cancelled_in_the_very_turn_of_its_dispatch_hands_the_seat_on() -> None:
    """Dispatch, then cancel before the waiter runs: no seat is lost, the next one is served."""
    gate, log = Gate(small_preset()), list[str]()
    holder = gate.enter()
    tasks = [asyncio.create_task(served(gate, 1.0, log, name)) for name in "ab"]
    await settle()
    holder.leave(Ending.COMPLETED)
    tasks[0].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert log == ["b"]
    assert outcomes(gate) == {"completed": 2, "cancelled_running": 1}
    assert_at_rest(gate)


@on_virtual_time
async def test_a_request_cancelled_before_its_first_step_leaves_nothing() -> None:
    """A task that is cancelled before it began never asked for a seat."""
    gate = Gate(small_preset())
    task = asyncio.create_task(served(gate, 1.0, [], "never"))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert outcomes(gate) == {}
    assert_at_rest(gate)


@on_virtual_time
async def test_calls_that_wait_together_are_freed_together() -> None:
    """One call of a request is cancelled and settles it: its sibling does not wait for ever."""
    gate = Gate(small_preset())
    gate.enter()
    permit = gate.enter()
    siblings = [asyncio.create_task(permit.admitted()) for _ in range(2)]
    await settle()
    siblings[0].cancel()
    permit.leave(Ending.CANCELLED)
    done, pending = await asyncio.wait(siblings, timeout=1.0)
    assert pending == set()
    assert all(task.cancelled() for task in done)


@on_virtual_time
async def test_a_switch_drops_no_request_and_fills_the_new_seats_at_once() -> None:
    """Ten wait; with more seats they are dispatched in the same turn, with fewer seats none ends."""
    gate = Gate(small_preset(1))
    permits = [gate.enter() for _ in range(10)]
    assert gate.switch(small_preset(4, name="wider")) == 2
    assert [permit.dispatched_s is not None for permit in permits] == [True] * 4 + [False] * 6
    assert [permit.preset_name for permit in permits[:4]] == ["small", "wider", "wider", "wider"]
    gate.switch(small_preset(1))
    assert gate.desk.ledger.in_flight == 4
    for permit in permits:
        await permit.admitted()
        permit.leave(Ending.COMPLETED)
    assert outcomes(gate) == {"completed": 10}
    assert_at_rest(gate)


@on_virtual_time
async def test_pause_holds_all_requests_and_resume_dispatches_them() -> None:
    """Paused, a free seat stays free; resumed, it is taken in the same turn."""
    gate = Gate(small_preset())
    gate.pause()
    permit = gate.enter()
    await asyncio.sleep(1.0)
    assert permit.dispatched_s is None
    gate.resume()
    assert permit.wait_s == pytest.approx(1.0)
    permit.leave(Ending.COMPLETED)
    assert_at_rest(gate)


@on_virtual_time
async def test_drain_refuses_the_waiting_and_lets_the_running_finish() -> None:
    """Waiting and new requests are refused at once; the running ones complete."""
    gate, log = Gate(small_preset()), list[str]()
    tasks = [asyncio.create_task(served(gate, 1.0, log, name)) for name in "abc"]
    await settle()
    gate.drain()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [getattr(result, "reason", None) for result in results] == [None, Reason.DRAINING, Reason.DRAINING]
    with pytest.raises(Rejected) as caught:
        gate.enter()
    assert caught.value.status == 503
    assert outcomes(gate) == {"completed": 1, "drained": 3}
    assert_at_rest(gate)


@on_virtual_time
async def test_a_lost_engine_answers_all_requests_and_the_next_engine_serves_again() -> None:
    """Running and waiting requests are refused, each once; when the engine is back, new ones are served."""
    gate, aborted = Gate(small_preset()), list[int]()
    running, waiting = gate.enter(), gate.enter()
    running.on_abort = lambda: aborted.append(1)
    gate.engine_lost()
    gate.engine_lost()
    for permit in (running, waiting):
        with pytest.raises(Rejected) as caught:
            await permit.admitted()
        assert caught.value.reason is Reason.ENGINE_LOST
        permit.leave(Ending.FAILED)
    assert aborted == [1]
    gate.engine_back()
    async with seated(gate):
        assert gate.desk.seats_taken == 1
    assert outcomes(gate) == {"engine_lost": 2, "completed": 1}
    assert_at_rest(gate)


@pytest.mark.slow
@on_virtual_time
async def test_a_hundred_tasks_with_many_tries_each_never_pass_the_limit() -> None:
    """Limit 10, tries of which some give up: at most 10 inside at any moment, and the sums are exact."""
    gate = Gate(small_preset(10, most_waiting=1_000, classes={"normal": terms(1, places=1_000, queue_s=1e4)}))
    inside, most, tally = 0, 0, Counter[str]()

    async def worker(seed: int) -> None:
        nonlocal inside, most
        dice = random.Random(seed)
        for _ in range(TRIES):
            permit = gate.enter()
            try:
                if permit.dispatched_s is None and dice.random() < 0.05:
                    tally["gave up"] += 1
                    permit.leave(Ending.CANCELLED)
                    continue
                await permit.admitted()
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1
                tally["served"] += 1
            finally:
                permit.leave(Ending.COMPLETED)

    await asyncio.gather(*(worker(seed) for seed in range(100)))
    assert most == 10
    assert tally["served"] + tally["gave up"] == 100 * TRIES
    assert outcomes(gate) == {"completed": tally["served"], "cancelled_queued": tally["gave up"]}
    assert_at_rest(gate)


@on_virtual_time
async def test_a_permit_closed_twice_counts_once() -> None:
    """Only the first end counts."""
    gate = Gate(small_preset())
    permit: Permit = gate.enter()
    permit.leave(Ending.COMPLETED)
    permit.leave(Ending.FAILED)
    permit.occupy(5)
    assert outcomes(gate) == {"completed": 1}
    assert_at_rest(gate)


@on_virtual_time
async def test_a_request_that_may_not_wait_is_dispatched_or_refused() -> None:
    """may_wait=False: a free seat is taken, a taken one is a refusal in the same turn."""
    gate = Gate(small_preset())
    permit = gate.enter(may_wait=False)
    with pytest.raises(Rejected) as caught:
        gate.enter(may_wait=False)
    assert (caught.value.reason, caught.value.status) == (Reason.NO_FREE_SEAT, 429)
    permit.leave(Ending.COMPLETED)
    assert_at_rest(gate)


@on_virtual_time
async def test_seats_are_held_back_while_memory_is_short_and_opened_one_by_one_once_warm() -> None:
    """Half of four are two; after that the ramp of the preset counts, from one at its beginning."""
    preset = small_preset(4)
    gate = Gate(preset.model_copy(update={"warmup": preset.warmup.model_copy(update={"ramp_s": 10.0})}))
    permits = [gate.enter() for _ in range(6)]
    gate.cap_seats(CapReason.MEMORY, 0.5)
    assert gate.desk.limit == 2
    gate.cap_seats(CapReason.RECOVERY, 0.25)
    gate.cap_seats(CapReason.MEMORY, 1.0)
    assert gate.desk.limit == 1
    gate.cap_seats(CapReason.RECOVERY, 1.0)
    assert gate.desk.limit == 4
    await asyncio.sleep(1.0)
    gate.warmed_up()
    assert gate.desk.limit == 1
    for permit in permits[:4]:
        permit.leave(Ending.COMPLETED)
    assert gate.desk.seats_taken == 1
    await asyncio.sleep(10.0)
    assert (gate.desk.limit, gate.desk.seats_taken) == (4, 2)
    for permit in permits[4:]:
        permit.leave(Ending.COMPLETED)
    assert_at_rest(gate)
