"""The gate in virtual time: waiting, dispatch, time-outs, and the state that is kept afterwards."""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections import Counter
from contextlib import suppress

import pytest
from gc_paused import gc_paused
from small_presets import small_preset, terms
from tiers import LONG
from virtual_time import on_virtual_time

from headway.admission.gate import Gate, Permit
from headway.admission.listeners import EndedRequest
from headway.errors import Expired, Refused, Rejected, TimedOut, UnknownClassError
from headway_policies import CapReason, Desk, Ending, Outcome, PriorityClass, Reason, Timeouts, Usage
from headway_policies.desk import Phase
from headway_policies.fallback.degradation import Degradation
from headway_policies.fallback.rungs import Fallback, Rung

TRIES = 1_000 if LONG else 100


def now_s() -> float:
    return asyncio.get_running_loop().time()


def outcomes(gate: Gate) -> dict[str, int]:
    total: Counter[Outcome] = Counter()
    for counts in gate.desk.ledger.classes.values():
        assert counts.balanced
        total += counts.outcomes
    return {str(outcome): number for outcome, number in total.items()}


def assert_at_rest(gate: Gate) -> None:
    assert (gate.desk.seats_taken, gate.desk.ledger.queued, gate.desk.ledger.in_flight) == (0, 0, 0)
    assert gate._permits == {}
    assert gate.dump()["waiting"] == gate.dump()["running"] == []


async def served(gate: Gate, for_s: float, log: list[str], name: str, class_name: str | None = None) -> None:
    async with gate.admit(class_name):
        log.append(name)
        await asyncio.sleep(for_s)


async def settle() -> None:
    """Let everything that is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


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
            async with gate.admit():
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
    begun_s, permit = now_s(), gate.enter(timeout_s=5.0)
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


@on_virtual_time
async def test_a_block_whose_time_ran_out_ends_with_a_refusal() -> None:
    """``admit`` raises TimedOut at the end of a block that took too long."""
    gate = Gate(small_preset())
    with pytest.raises(TimedOut):
        async with gate.admit(timeout_s=5.0):
            await asyncio.sleep(6.0)
    assert outcomes(gate) == {"expired_running": 1}
    assert_at_rest(gate)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(ValueError("broken"), "failed"), (asyncio.CancelledError(), "cancelled_running"), (None, "completed")],
    ids=["an error", "a cancellation", "nothing"],
)
@on_virtual_time
async def test_a_block_is_settled_by_the_way_it_ends(error: BaseException | None, outcome: str) -> None:
    """The outcome is what happened in the block; whatever it was, the next gets the seat."""
    gate = Gate(small_preset())

    async def block() -> None:
        async with gate.admit():
            if error is not None:
                raise error

    await asyncio.gather(block(), return_exceptions=True)
    assert outcomes(gate) == {outcome: 1}
    async with gate.admit():
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


@pytest.mark.parametrize("ending", list(Ending))
@on_virtual_time
async def test_ending_after_the_deadline_and_before_the_timer_is_settled_once(ending: Ending) -> None:
    """A busy loop may be late: a request that ends then is settled as expired, and all behind it are served."""
    gate = Gate(small_preset())
    running, waiting = gate.enter(timeout_s=5.0), gate.enter(timeout_s=6.0)
    third, late_s = gate.enter(timeout_s=50.0), now_s() + 7.0
    gate.now_s = lambda: late_s
    waiting.leave(ending)
    running.leave(ending)
    await asyncio.wait_for(third.admitted(), 1.0)
    third.leave(Ending.COMPLETED)
    assert outcomes(gate) == {"expired_queued": 1, "expired_running": 1, "completed": 1}
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
    async with gate.admit():
        assert gate.desk.seats_taken == 1
    assert outcomes(gate) == {"engine_lost": 2, "completed": 1}
    assert_at_rest(gate)


@on_virtual_time
async def test_there_is_one_timer_however_many_wait() -> None:
    """A thousand deadlines need one timer; none remains after the gate was closed."""
    gate = Gate(small_preset(most_waiting=2_000, classes={"normal": terms(1, places=2_000)}))
    loop = asyncio.get_running_loop()
    before = _timers(loop)
    permits = [gate.enter(timeout_s=1_000.0 - number % 7) for number in range(1_000)]
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


class Notes:
    """A meter that records its calls."""

    def __init__(self) -> None:
        self.waits: list[tuple[str, float]] = []
        self.first_tokens: list[tuple[str, float]] = []
        self.prefills_s: list[float] = []
        self.ends: list[EndedRequest] = []

    def waited(self, class_name: str, wait_s: float) -> None:
        self.waits.append((class_name, wait_s))

    def first_token(self, class_name: str, delay_s: float, prefill_s: float) -> None:
        self.first_tokens.append((class_name, delay_s))
        self.prefills_s.append(prefill_s)

    def ended(self, ended: EndedRequest) -> None:
        self.ends.append(ended)


@on_virtual_time
async def test_the_meter_hears_of_each_dispatch_and_each_first_token_once() -> None:
    """The wait ends at the dispatch; the time to the first token counts from the arrival, the queue included.

    A delay that the engine measured counts as it is.
    """
    notes = Notes()
    gate = Gate(small_preset(), meter=notes)
    await asyncio.sleep(100.0)
    first, second, third = gate.enter("batch"), gate.enter(), gate.enter()
    await asyncio.sleep(2.0)
    first.first_token()
    first.first_token()
    first.leave(Ending.COMPLETED)
    await asyncio.sleep(1.0)
    second.first_token()
    second.leave(Ending.COMPLETED)
    third.first_token(0.125)
    third.leave(Ending.COMPLETED)
    assert [name for name, _ in notes.waits] == [name for name, _ in notes.first_tokens] == ["batch", *["normal"] * 2]
    assert [wait_s for _, wait_s in notes.waits] == pytest.approx([0.0, 2.0, 3.0])
    assert [delay_s for _, delay_s in notes.first_tokens] == pytest.approx([2.0, 3.0, 0.125])
    assert notes.prefills_s == pytest.approx([2.0, 1.0, 0.0])
    assert [(one.class_name, one.outcome, one.dispatched, one.total_s) for one in notes.ends] == [
        ("batch", Outcome.COMPLETED, True, 2.0), *[("normal", Outcome.COMPLETED, True, 3.0)] * 2,
    ]  # fmt: skip


@on_virtual_time
async def test_the_meter_hears_of_each_end_once_however_it_comes() -> None:
    """Completed, cancelled while waiting, refused on arrival, timed out in the queue, and aborted while running."""
    notes = Notes()
    gate = Gate(small_preset(most_waiting=2), meter=notes)
    running = gate.enter(timeouts=Timeouts(total_s=5.0))
    cancelled, waiting = gate.enter(), gate.enter(timeouts=Timeouts(queue_s=3.0))
    with pytest.raises(Refused):
        gate.enter()
    cancelled.leave(Ending.CANCELLED)
    await asyncio.sleep(6.0)
    for permit in (running, waiting, cancelled):
        permit.leave(Ending.FAILED)
    assert [one.outcome for one in notes.ends] == [
        Outcome.REJECTED_FULL, Outcome.CANCELLED_QUEUED, Outcome.EXPIRED_QUEUED, Outcome.EXPIRED_RUNNING,
    ]  # fmt: skip
    assert [one.dispatched for one in notes.ends] == [False, False, False, True]
    assert outcomes(gate) == Counter(one.outcome for one in notes.ends)


@on_virtual_time
async def test_a_slow_reader_lengthens_no_time_between_tokens() -> None:
    """The engine ended the answer long before its client had read it."""
    notes = Notes()
    gate = Gate(small_preset(), meter=notes)
    permit = gate.enter()
    await asyncio.sleep(1.0)
    permit.first_token()
    await asyncio.sleep(2.0)
    permit.use(10, 21, "stop")
    await asyncio.sleep(30.0)
    permit.leave(Ending.COMPLETED)
    (ended,) = notes.ends
    assert (ended.first_token_s, ended.decode_s, ended.total_s) == pytest.approx((1.0, 2.0, 3.0))
    assert ended.pace_s == pytest.approx(0.1)
    assert ended.finish_reasons == ("stop",)


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
async def test_what_is_known_of_a_request_reaches_its_ticket() -> None:
    """Every wish stands in the ticket as it was given."""
    gate = Gate(small_preset())
    own = {"tenant": "acme", "seats": 1, "prompt_tokens": 5, "prompt_bytes": 20, "max_tokens": 7, "may_wait": False}
    async with gate.admit("batch", **own) as permit:  # type: ignore[arg-type]  # a plain dict of wishes
        assert {name: getattr(permit.ticket, name) for name in own} == own
    assert_at_rest(gate)


@on_virtual_time
async def test_usage_reaches_the_desk_once_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the sequences used is added up and given at the end; a sum given there takes its place."""
    seen: list[Usage | None] = []
    leave = Desk.leave

    def noting(
        desk: Desk, ticket_id: int, ending: Ending, now_s: float, usage: Usage | None = None, *, sequences: int = 0
    ) -> object:
        seen.append(usage)
        return leave(desk, ticket_id, ending, now_s, usage, sequences=sequences)

    monkeypatch.setattr(Desk, "leave", noting)
    gate = Gate(small_preset(3))
    summed, given, unknown = gate.enter(), gate.enter(), gate.enter()
    for output_tokens in (3, 4):
        summed.use(10, output_tokens)
        given.use(10, output_tokens)
    summed.leave(Ending.COMPLETED)
    given.leave(Ending.COMPLETED, Usage(1, 2))
    unknown.leave(Ending.COMPLETED)
    assert seen == [Usage(20, 7), Usage(1, 2), None]
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


KINDS = {
    Reason.QUEUE_TIMEOUT: (503, Expired),
    Reason.FIRST_TOKEN_TIMEOUT: (504, TimedOut),
    Reason.STALL_TIMEOUT: (504, TimedOut),
    Reason.TOTAL_TIMEOUT: (504, TimedOut),
    Reason.DRAINING: (503, Rejected),
    Reason.NOT_READY: (503, Rejected),
    Reason.ENGINE_LOST: (503, Rejected),
    Reason.OUT_OF_MEMORY: (503, Rejected),
    Reason.POISON: (503, Rejected),
}


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_its_status_and_its_kind(reason: Reason) -> None:
    """429 for want of room or time, 503 for the server's own state and the queue, 504 once the engine had it."""
    from headway.errors import refusal

    error = refusal(reason, 7)
    assert (error.status, type(error)) == KINDS.get(reason, (429, Rejected))


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_a_status_a_sentence_and_honest_advice(reason: Reason) -> None:
    """The client gets the reason, and Retry-After only where a retry can help."""
    from headway.errors import refusal

    error = refusal(reason, 7)
    assert isinstance(error, Refused)
    assert error.status in (429, 503, 504)
    assert error.retry == (error.status != 504 and reason is not Reason.POISON)
    assert ("Try again in 7 s." in str(error)) == error.retry
    assert str(error).endswith(f"({reason})")


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
    late = [asyncio.create_task(gate.enter(timeout_s=5.0).admitted()) for _ in range(2)]
    in_time = asyncio.create_task(gate.enter(timeout_s=9.0).admitted())
    await asyncio.sleep(0)
    now_s = gate.now_s
    gate.now_s = lambda: now_s() + 7.0  # the clock's reading when the loop runs again
    holder.leave(Ending.COMPLETED)
    results = await asyncio.gather(*late, in_time, return_exceptions=True)
    assert [type(one) for one in results] == [Expired, Expired, type(None)]


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


@on_virtual_time
async def test_a_passage_begins_with_nothing_decided() -> None:
    """The permit has the preset of its arrival, and the waiting state; the rest is set at dispatch."""
    gate = Gate(small_preset(1))
    holding, waiting = gate.enter(), gate.enter()
    assert (waiting.phase, waiting.begun, waiting.beside) == (Phase.WAITING, False, False)
    assert (waiting.most_tokens, waiting.usage, waiting.refused) == (None, None, None)
    assert (waiting.dispatched_s, waiting.token_s, waiting.requeues, waiting.ended_sequences) == (None, None, 0, 0)
    assert (waiting.preset_name, waiting.degradations) == ("small", "")
    gate.switch(small_preset(1, name="other"))
    holding.leave(Ending.COMPLETED)
    assert (waiting.phase, waiting.preset_name) == (Phase.RUNNING, "other")
    waiting.leave(Ending.COMPLETED)
    assert_at_rest(gate)


@on_virtual_time
async def test_degraded_requests_are_counted_by_class_and_kind() -> None:
    """One runs beside the batch, one is capped, one is shed; a request that gets all it asked for is not counted."""
    classes = {
        "realtime": terms(3, may_bypass=True),
        "normal": terms(2, fallback_max_tokens=8),
        "batch": terms(1, sheddable=True),
    }
    preset = small_preset(1, classes=classes, batching={"strategy": "static"})
    gate = Gate(preset.model_copy(update={"fallback": Fallback(bypass_seats=1)}), ceiling=4)
    permits = [gate.enter("normal", max_tokens=4)]
    gate.fall_back(frozenset({Rung.CAP, Rung.BYPASS, Rung.SHED}))
    permits += [gate.enter("realtime"), gate.enter("normal", max_tokens=100)]
    with pytest.raises(Refused):
        gate.enter("batch")
    permits[0].leave(Ending.COMPLETED)
    assert gate.degraded == {
        ("realtime", Degradation.ORDER): 1,
        ("batch", Degradation.REFUSED): 1,
        ("normal", Degradation.MAX_TOKENS): 1,
    }
    assert [one.degradations for one in permits] == ["", "order", "max_tokens=8"]
    for permit in permits:
        permit.leave(Ending.COMPLETED)


@on_virtual_time
async def test_a_request_ended_while_running_gets_retry_after() -> None:
    """Whole seconds, as for a refused request."""
    gate = Gate(small_preset(1))
    permit = gate.enter(timeout_s=2.0)
    await permit.admitted()
    await asyncio.sleep(3.0)
    with pytest.raises(TimedOut) as caught:
        permit.check()
    assert isinstance(caught.value.retry_after_s, int)
    assert caught.value.retry_after_s >= 1
    permit.leave(Ending.FAILED)
    assert_at_rest(gate)


@on_virtual_time
async def test_an_effect_that_the_gate_does_not_know_is_an_error(failed_effects: list[str]) -> None:
    """No effect of the desk is ignored in silence."""
    gate = Gate(small_preset())
    gate._carry_out([object()])  # type: ignore[list-item]  # no effect at all
    assert gate.effect_errors == 1
    assert "unreachable" in failed_effects.pop()
