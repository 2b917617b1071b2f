"""The gateway: the engine calls of one request, and its behaviour when an engine does not respond."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import math
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest
from engines import ServingEngine, assert_no_residue, outcomes
from gc_paused import gc_paused
from small_presets import small_preset, terms
from virtual_time import on_virtual_time

from headway.admission.gate import Gate
from headway.admission.request_context import REQUEST_CONTEXT, RequestContext
from headway.engine.fake import FakeEngine, FakeParams
from headway.engine.port import Ended, Engine, PlainAdapter
from headway.errors import Refused, Rejected
from headway.openai.asked import Asked
from headway.operator.control import Control
from headway.operator.install import install, prepare
from headway.operator.presets import PresetCatalogue
from headway_policies import AdmissionState, Desk, Ending, Load, Reason, Timeouts, Usage, Watchdog
from headway_policies.limits.limit import LimitSettings


def behind_a_gate(
    seats: int = 2, engine: FakeEngine | None = None, kind: PlainAdapter | None = None
) -> tuple[Any, Control]:
    """A serving engine that makes a token a second, and its control room."""
    served: Any = engine or ServingEngine(step_s=1.0)
    return served, install(prepare(served, kind or PlainAdapter(), small_preset(seats)), PresetCatalogue())


@pytest.fixture
def context() -> Iterator[RequestContext]:
    """An HTTP request around all calls of the test."""
    around = RequestContext(class_name="batch", tenant="acme")
    token = REQUEST_CONTEXT.set(around)
    yield around
    REQUEST_CONTEXT.reset(token)


async def read(engine: Any, request_id: str, tokens: int = 3, n: int = 1, **options: Any) -> int:
    count = 0
    async for _ in engine.generate("text", FakeParams(tokens, n), request_id, **options):
        count += 1
    return count


@on_virtual_time
async def test_a_request_without_a_token_makes_room_and_is_answered_later() -> None:
    """At full seats: the engine stops it, the urgent one runs in its place, and both are answered whole, once each."""
    engine = ServingEngine(step_s=1.0)
    preset = small_preset(1, queue={"make_room": True})
    control = install(prepare(engine, PlainAdapter(), preset), PresetCatalogue())
    batch = asyncio.create_task(read(engine, "patient", priority=1))
    await asyncio.sleep(0.5)  # the engine has it, and its first token comes after a second
    urgent = asyncio.create_task(read(engine, "urgent", priority=3))
    assert await urgent == 3
    assert await batch == 3
    assert engine.started == ["patient", "urgent", "patient"]
    assert "patient" in engine.aborted
    assert outcomes(control) == {"completed": 2}
    assert control.gateway.gate.desk.ledger.classes["batch"].recalls == 1


def test_the_fake_engine_stands_at_the_port() -> None:
    """FakeEngine is an Engine, and PlainAdapter reads its facts."""
    assert isinstance(FakeEngine(), Engine)
    assert PlainAdapter().engine_seats(FakeEngine(max_num_seqs=5)) == 5
    assert PlainAdapter().engine_seats(object()) is None
    assert [PlainAdapter().seats(FakeParams(n=n)) for n in (1, 4)] == [1, 4]
    assert PlainAdapter().seats(object()) == 1


@on_virtual_time
async def test_refused_calls_leave_no_garbage() -> None:
    """A refused request, and the exceptions that reported it, are freed with their last reference."""
    engine, _ = behind_a_gate(seats=1)
    holding = asyncio.create_task(read(engine, "holding", tokens=500))
    await asyncio.sleep(0)

    async def all_refused() -> None:
        for number in range(50):
            token = REQUEST_CONTEXT.set(RequestContext(may_wait=False))
            with pytest.raises(Refused):
                await read(engine, f"refused-{number}")
            REQUEST_CONTEXT.reset(token)

    await all_refused()
    with gc_paused():
        await all_refused()
        assert gc.collect() < 50
    holding.cancel()


@on_virtual_time
async def test_all_calls_of_a_request_share_one_ticket(context: RequestContext) -> None:
    """Three calls at once under one context: one arrival, a seat for each call, one dispatch."""
    engine, control = behind_a_gate()
    reading = asyncio.gather(*(read(engine, request_id) for request_id in "abc"))
    await asyncio.sleep(0.5)
    desk = control.gateway.gate.desk
    assert desk.ledger.classes["batch"].arrived == 1
    assert desk.seats_taken == 3
    assert await reading == [3, 3, 3]
    assert (desk.seats_taken, desk.ledger.in_flight) == (0, 1)
    assert (context.calls_completed, context.calls_failed) == (3, 0)
    assert context.permit is not None
    context.permit.leave(Ending.COMPLETED)
    await assert_no_residue(control)
    assert outcomes(control) == {"completed": 1}


@on_virtual_time
async def test_a_request_takes_a_seat_for_each_answer_to_each_prompt(context: RequestContext) -> None:
    """Three prompts with two answers each are six sequences: six seats at the gate, and four after the first prompt."""
    engine, control = behind_a_gate(8)
    context.asked = Asked(prompts=3)
    reading = asyncio.create_task(read(engine, "a", n=2))
    await asyncio.sleep(0.5)
    assert context.permit is not None
    assert (context.permit.ticket.seats, control.gateway.gate.desk.seats_taken) == (6, 6)
    await reading
    assert control.gateway.gate.desk.seats_taken == 4
    context.permit.leave(Ending.COMPLETED)
    await assert_no_residue(control)


@pytest.mark.parametrize(("trips", "ending"), [(True, "failed"), (False, "cancelled_running")])
@on_virtual_time
async def test_a_request_one_of_whose_calls_fails_is_not_counted_as_cancelled(
    context: RequestContext, trips: bool, ending: str
) -> None:
    """Its server cancels the other calls for that; where its client does, nothing else has failed."""
    engine, control = behind_a_gate(seats=2)
    context.asked = Asked(prompts=2)
    calls = [asyncio.create_task(read(engine, name, tokens=9)) for name in "ab"]
    await asyncio.sleep(1.5)
    if trips:
        engine.trips_over = {"a"}
        with pytest.raises(RuntimeError):
            await calls[0]
    for one in calls:
        one.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert context.permit is not None
    context.permit.leave(Ending.FAILED)
    assert outcomes(control) == {ending: 1}
    await assert_no_residue(control)


@on_virtual_time
async def test_a_follow_up_call_of_a_request_does_not_queue_again(context: RequestContext) -> None:
    """A tool turn is dispatched at once, even though all other requests wait for the seats."""
    engine, control = behind_a_gate(1)
    await read(engine, "a")
    stranger = control.gateway.gate.enter()
    begun_s = asyncio.get_running_loop().time()
    assert await read(engine, "a2") == 3
    assert asyncio.get_running_loop().time() - begun_s == pytest.approx(3.0)
    assert stranger.dispatched_s is not None
    assert context.permit is not None
    for permit in (stranger, context.permit):
        permit.leave(Ending.COMPLETED)
    await assert_no_residue(control)


@on_virtual_time
async def test_class_and_tenant_come_from_the_trip_and_not_from_the_call(context: RequestContext) -> None:
    """Inside an HTTP request the call cannot bring a priority of its own."""
    engine, control = behind_a_gate()
    await read(engine, "a", priority=-99, tenant="other")
    assert engine.priorities == {"a": 2}
    assert context.permit is not None
    assert context.permit.ticket.tenant == "acme"
    context.permit.leave(Ending.COMPLETED)
    await assert_no_residue(control)


@pytest.mark.parametrize(("most_tokens", "made"), [(None, 3), (5, 3), (2, 2)])
@on_virtual_time
async def test_an_answer_is_no_longer_than_its_tenant_may_have(
    context: RequestContext, most_tokens: int | None, made: int
) -> None:
    """Whatever the call asks for."""
    engine, _ = behind_a_gate()
    context.most_tokens = most_tokens
    assert await read(engine, "a", tokens=3) == made


@on_virtual_time
async def test_a_bypass_goes_past_the_gate(context: RequestContext) -> None:
    """A warm-up request asks for no ticket and is most urgent in the engine."""
    context.bypass = True
    engine, control = behind_a_gate(1)
    control.gateway.gate.enter()
    engine.check_admission(1)
    assert await read(engine, "a") == 3
    assert engine.priorities == {"a": 0}
    assert context.permit is None
    assert control.gateway.gate.desk.ledger.classes["batch"].arrived == 0


@on_virtual_time
async def test_the_admission_check_reserves_before_rendering(context: RequestContext) -> None:
    """A query without an id is Headway's own and takes the seats; with an id it is the engine's own."""
    engine, control = behind_a_gate()
    arrivals: list[None] = []
    context.on_arrival = lambda: arrivals.append(None)
    engine.check_admission(2)
    engine.check_admission(2)
    assert len(arrivals) == 1
    desk = control.gateway.gate.desk
    assert (desk.ledger.classes["batch"].arrived, desk.seats_taken) == (1, 2)
    engine.check_admission(1, "a")
    assert engine.checked == [(2, None), (2, None), (1, "a")]
    assert context.permit is not None
    context.permit.leave(Ending.INVALID)
    assert outcomes(control) == {"rejected_invalid": 1}
    await assert_no_residue(control)


@on_virtual_time
async def test_the_admission_check_refuses_before_anything_is_rendered(context: RequestContext) -> None:
    """A refusal takes effect at once, stays with the context, and the engine is not called."""
    engine, control = behind_a_gate()
    control.gateway.gate.drain()
    with pytest.raises(Rejected):
        engine.check_admission(1)
    assert isinstance(context.refused, Rejected)
    assert (context.permit, engine.checked) == (None, [])


@on_virtual_time
async def test_a_seat_is_free_when_the_engine_says_so_however_slowly_the_client_reads() -> None:
    """The engine ended the sequence: the next goes, while the first is still being read."""
    engine, control = behind_a_gate(1)
    slow = engine.generate("text", FakeParams(3), "slow")
    await anext(slow)
    reading = asyncio.create_task(read(engine, "next"))
    await asyncio.sleep(0)
    control.activity.step(Load(1, 0, 0.5), sequences=1, ended=[Ended("slow"), Ended("slow"), Ended("unknown")])
    assert control.gateway.gate.desk.ledger.queued == 0
    assert control.activity.load == Load(1, 0, 0.5)
    assert await reading == 3
    assert [len(one.tokens) async for one in slow] == [2, 3]
    await assert_no_residue(control)
    assert outcomes(control) == {"completed": 2}


class StopFails(FakeEngine):
    """An engine that obeys an abort only at the third call."""

    def __init__(self) -> None:
        super().__init__(step_s=0.1, add_s=2.0)

    async def abort(self, request_id: str) -> None:
        if self.aborted.count(request_id) >= 2:
            await super().abort(request_id)
        else:
            self.aborted.append(request_id)


@on_virtual_time
async def test_the_seats_of_an_aborted_call_are_free_though_it_is_not_read() -> None:
    """Time is up, and the engine has stopped it: the next has its seat, while the reader is still to come."""
    engine, control = behind_a_gate(1)
    slow = engine.generate("text", FakeParams(100), "slow", timeout_s=2.5)
    await anext(slow)
    assert await read(engine, "next") == 3
    assert "slow" in engine.aborted
    with pytest.raises(Refused):
        await anext(slow)
    await assert_no_residue(control)
    assert outcomes(control) == {"completed": 1, "expired_running": 1}


@on_virtual_time
async def test_an_abort_is_repeated_until_the_call_is_over() -> None:
    """An abort that overtakes its request finds nothing to stop, so it is sent again."""
    engine, control = behind_a_gate(1, StopFails())
    with pytest.raises(Refused):
        await read(engine, "a", timeout_s=0.5)
    assert engine.aborted.count("a") >= 3
    await assert_no_residue(control)
    assert outcomes(control) == {"expired_running": 1}


@on_virtual_time
async def test_an_abort_that_fails_has_no_effect_on_other_requests(caplog: pytest.LogCaptureFixture) -> None:
    """An engine that cannot be reached: the caller gets its time-out, no seat or task remains, and it is logged
    once."""

    class Mute(FakeEngine):
        async def abort(self, request_id: str) -> None:
            raise ConnectionError("no answer")

    engine, control = behind_a_gate(1, Mute(step_s=0.1))
    with caplog.at_level(logging.WARNING, "headway.admission.engine_link"):
        for _ in range(2):
            with pytest.raises(Refused):
                await read(engine, "a secret", 100, timeout_s=5)
        assert await read(engine, "a") == 3
        await assert_no_residue(control)
    assert [record.getMessage() for record in caplog.records] == [
        "the engine could not abort a request: ConnectionError"
    ]


@on_virtual_time
async def test_a_call_cut_short_by_the_engine_is_not_completed() -> None:
    """A stream that the engine ended before its time counts as failed where the engine adapter can detect it."""

    class Strict(PlainAdapter):
        def unfinished(self, output: Any) -> bool:
            return bool(output.finish_reason == "abort")

    engine, control = behind_a_gate(1, kind=Strict())
    reading = asyncio.create_task(read(engine, "a", 100))
    await asyncio.sleep(1.5)
    await engine.abort("a")
    await reading
    await assert_no_residue(control)
    assert outcomes(control) == {"failed": 1}


@on_virtual_time
async def test_an_engine_that_gives_nothing_has_not_completed() -> None:
    """A call without a single output is a failure."""

    class Silent(FakeEngine):
        async def generate(self, *arguments: Any, **options: Any) -> AsyncGenerator[Any, None]:
            for output in list[Any]():
                yield output

    engine, control = behind_a_gate(1, Silent())
    assert await read(engine, "a") == 0
    await assert_no_residue(control)
    assert outcomes(control) == {"failed": 1}


@on_virtual_time
async def test_the_rank_of_a_class_that_went_away_is_the_last() -> None:
    """A waiting request whose class a switch removed is the least urgent in the engine."""
    engine, control = behind_a_gate(1)
    holder = control.gateway.gate.enter()
    reading = asyncio.create_task(read(engine, "a", priority="realtime"))
    await asyncio.sleep(0)
    control.gateway.gate.switch(small_preset(classes={"x": terms(1), "y": terms(2)}))
    holder.leave(Ending.COMPLETED)
    await reading
    assert engine.priorities == {"a": 2}
    await assert_no_residue(control)


@on_virtual_time
async def test_a_limit_that_the_engine_will_not_take_undoes_no_switch(caplog: pytest.LogCaptureFixture) -> None:
    """The gate keeps the limit alone, the status says so, and one warning is logged."""

    class LimitFails(PlainAdapter):
        async def limit_engine(self, engine: Any, seats: int) -> int | None:
            raise TimeoutError("no answer")

    _, control = behind_a_gate(kind=LimitFails())
    with caplog.at_level(logging.WARNING, "headway.admission.engine_link"):
        await control.gateway.link.limit_engine()
    assert control.gateway.link.core_limit is None
    assert [record.getMessage() for record in caplog.records] == [
        "the engine has not confirmed its own limit of 2 seats (no answer): the gate alone keeps it until the engine "
        "responds"
    ]


@on_virtual_time
async def test_the_engine_gets_the_limit_at_the_first_request_and_at_each_switch() -> None:
    """An engine with a knob of its own follows the preset."""
    limits_set: list[int] = []

    class Knob(PlainAdapter):
        async def limit_engine(self, engine: Any, seats: int) -> int | None:
            limits_set.append(seats)
            return seats

    engine, control = behind_a_gate(3, kind=Knob())
    await read(engine, "a")
    assert (limits_set, control.gateway.link.core_limit) == ([3], 3)
    from headway.audit import Caller

    await control.switch("serial", expected_revision=1, caller=Caller())
    assert (limits_set, control.gateway.link.core_limit) == ([3, 1], 1)
    await assert_no_residue(control)


ADAPTIVE = {
    "fixed": ({}, 3),
    "adaptive, up to the engine's own limit": ({"policy": "aimd"}, 64),
    "adaptive, up to the preset's": ({"policy": "aimd", "max_seats": 16}, 16),
    "a bound by memory": ({"memory_aware": True}, 64),
    "adaptive, only shown": ({"policy": "aimd", "shadow": True}, 3),
}


@pytest.mark.parametrize(("limiting", "expected"), ADAPTIVE.values(), ids=ADAPTIVE)
@on_virtual_time
async def test_an_adaptive_limit_is_kept_by_the_gate_and_not_sent_to_the_engine_each_time(
    limiting: dict[str, Any], expected: int
) -> None:
    """The engine gets the most that the policy may reach, once; a fixed limit it gets as it is."""
    limits_set: list[int] = []

    class Knob(PlainAdapter):
        async def limit_engine(self, engine: Any, seats: int) -> int | None:
            limits_set.append(seats)
            return seats

    preset = small_preset(3).model_copy(update={"limit": LimitSettings.model_validate(limiting)})
    engine: Any = ServingEngine(step_s=1.0)
    control = install(prepare(engine, Knob(), preset), PresetCatalogue())
    await read(engine, "a")
    for _ in range(50):
        control.activity.step(Load(3, 0, 0.1, inter_token_s=0.001), 3, [])
    await read(engine, "b")
    assert limits_set == [expected]
    await assert_no_residue(control)


@on_virtual_time
async def test_an_engine_without_a_ceiling_gets_the_seats_of_the_preset() -> None:
    """Where the engine's capacity is unknown, an adaptive limit starts from the preset's value."""
    limits_set: list[int] = []

    class Knob(PlainAdapter):
        def engine_seats(self, engine: Any) -> int | None:
            return None

        async def limit_engine(self, engine: Any, seats: int) -> int | None:
            limits_set.append(seats)
            return seats

    preset = small_preset(3).model_copy(update={"limit": LimitSettings(policy="aimd")})
    engine: Any = ServingEngine(step_s=1.0)
    control = install(prepare(engine, Knob(), preset), PresetCatalogue())
    await read(engine, "a")
    assert limits_set == [3]
    await assert_no_residue(control)


@on_virtual_time
async def test_the_first_token_is_timed_by_the_engine_where_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The adapter's reading of the first output counts; for an engine without one, the time since arrival.

    Where nobody knows it, none is measured.
    """
    measured: list[float] = []
    monkeypatch.setattr(Gate, "report_first_token", lambda _, permit, delay_s: measured.append(delay_s))

    class Telling(PlainAdapter):
        def first_token_delay_s(self, output: Any) -> float | None:
            told = {"timed": 0.25 * len(output.tokens), "hidden": math.nan}
            return told.get(output.request_id)

    engine, control = behind_a_gate(2, kind=Telling())
    await asyncio.sleep(10.0)
    await read(engine, "timed")
    await read(engine, "limit_pending")
    await read(engine, "hidden")
    assert measured == [0.25, 1.0]
    await assert_no_residue(control)


def usages(monkeypatch: pytest.MonkeyPatch) -> list[Usage | None]:
    """The usage of every ticket that ends, as the desk gets it."""
    seen: list[Usage | None] = []
    leave = Desk.leave

    def noting(
        desk: Desk, ticket_id: int, ending: Ending, now_s: float, usage: Usage | None = None, *, sequences: int = 0
    ) -> object:
        seen.append(usage)
        return leave(desk, ticket_id, ending, now_s, usage, sequences=sequences)

    monkeypatch.setattr(Desk, "leave", noting)
    return seen


@on_virtual_time
async def test_the_desk_learns_what_the_engine_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sequences that ended by the engine's own account: their sum, and not the last output's guess besides."""
    seen = usages(monkeypatch)
    engine, control = behind_a_gate()
    reading = asyncio.create_task(read(engine, "a", 3, n=2))
    await asyncio.sleep(2.5)
    control.activity.step(None, 0, [Ended("a", 10, 3), Ended("a", 10, 2)])
    await reading
    assert seen == [Usage(20, 5)]
    await assert_no_residue(control)


@on_virtual_time
async def test_the_desk_learns_from_the_last_output_where_the_engine_is_mute(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that reports no ends: its outputs have the tokens, also of a call that was cancelled."""
    seen = usages(monkeypatch)
    engine, control = behind_a_gate(1)
    await read(engine, "a", 3)
    stream = engine.generate("text of five", FakeParams(9), "b")
    await anext(stream)
    await anext(stream)
    await stream.aclose()
    assert seen == [Usage(1, 3), Usage(3, 2)]
    await assert_no_residue(control)


@on_virtual_time
async def test_all_calls_of_a_request_add_up(context: RequestContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each further tool turn adds its usage, reported once, when the request ends."""
    seen = usages(monkeypatch)
    engine, control = behind_a_gate()
    await read(engine, "a", 3)
    await read(engine, "a2", 4)
    assert seen == []
    assert context.permit is not None
    context.permit.leave(Ending.COMPLETED)
    assert seen == [Usage(2, 7)]
    await assert_no_residue(control)


@on_virtual_time
async def test_the_length_of_a_programs_own_request_is_known() -> None:
    """The prompt and max_tokens of a call stand in its ticket."""
    engine, control = behind_a_gate()
    reading = asyncio.create_task(read(engine, "a", 3))
    await asyncio.sleep(0.5)
    (entry,) = control.gateway.gate.desk.dispatched()
    assert (entry.ticket.prompt_tokens, entry.ticket.max_tokens) == (1, 3)
    await reading
    await assert_no_residue(control)


class Silent(PlainAdapter):
    """An engine whose calls give no output until their end, and that reports their progress."""

    def unstreamed(self, sampling_params: Any) -> bool:
        return True

    def tokens(self, engine: Any, request_id: str) -> int | None:
        return int(engine.made.get(request_id, 0))


class Whole(FakeEngine):
    """Gives one output, its last, and notes how many tokens it has made."""

    def __init__(self) -> None:
        super().__init__(step_s=1.0)
        self.made: dict[str, int] = {}

    async def generate(self, *arguments: Any, **options: Any) -> AsyncGenerator[Any, None]:
        output = None
        async for output in super().generate(*arguments, **options):
            self.made[output.request_id] = len(output.tokens)
        if output is not None:
            yield output


@pytest.mark.parametrize("stalls_s", [None, 4.5], ids=["goes on", "stalls"])
@on_virtual_time
async def test_a_whole_answer_is_timed_by_the_engines_progress(stalls_s: float | None) -> None:
    """Nothing shows for nine seconds: that is no stall while tokens are made, and one when they are not."""
    engine, control = behind_a_gate(1, Whole(), Silent())
    own = {"timeouts": Timeouts(first_token_s=2.0, stall_s=2.0)}
    reading = asyncio.create_task(asyncio.wait_for(read(engine, "a", 9, **own), 1_000))
    loop = asyncio.get_running_loop()
    for step in range(1, 40):
        loop.call_later(0.25 * step, control.activity.step, None, 1, [])
    if stalls_s is not None:
        loop.call_later(stalls_s, setattr, engine, "stalled", True)
    (result,) = await asyncio.gather(reading, return_exceptions=True)
    assert (result == 1) if stalls_s is None else (getattr(result, "reason", None) is Reason.STALL_TIMEOUT)
    await assert_no_residue(control)
    assert outcomes(control) == ({"completed": 1} if stalls_s is None else {"expired_running": 1})


@on_virtual_time
async def test_a_step_of_the_engine_is_a_sign_of_life() -> None:
    """The watchdog gets it, with the time."""
    _, control = behind_a_gate(1)
    control.gateway.link.watchdog = watchdog = Watchdog(0.0)
    await asyncio.sleep(5.0)
    assert watchdog.silent_s(5.0) == 5.0
    control.activity.step(None, 0, [])
    assert watchdog.silent_s(6.0) == 1.0


@on_virtual_time
async def test_sequences_that_end_one_by_one_free_a_seat_each(context: RequestContext) -> None:
    """Of three sequences the first two have ended: one seat is held, however they were reported."""
    engine, control = behind_a_gate(3)
    reading = asyncio.create_task(read(engine, "a", 9, n=3))
    await asyncio.sleep(0.5)
    seats = [control.gateway.gate.desk.seats_taken]
    for _ in range(2):
        control.activity.step(None, 0, [Ended("a")])
        seats.append(control.gateway.gate.desk.seats_taken)
    assert seats == [3, 2, 1]
    await reading
    assert context.permit is not None
    context.permit.leave(Ending.COMPLETED)
    await assert_no_residue(control)


@on_virtual_time
async def test_a_call_that_shows_nothing_is_looked_at_a_few_times_a_second() -> None:
    """However often the engine steps, it is asked ten times a second how far it is, and not at all for a stream."""
    asked: list[float] = []

    class Counting(Silent):
        def tokens(self, engine: Any, request_id: str) -> int | None:
            asked.append(asyncio.get_running_loop().time())
            return super().tokens(engine, request_id)

    engine, control = behind_a_gate(1, Whole(), Counting())
    reading = asyncio.create_task(read(engine, "a", 3, timeouts=Timeouts(stall_s=30.0)))
    for step in range(1, 200):
        asyncio.get_running_loop().call_later(0.015 * step, control.activity.step, None, 1, [])
    await reading
    apart_s = [later - sooner for sooner, later in itertools.pairwise(asked)]
    assert 20 <= len(asked) <= 30
    assert min(apart_s) >= 0.1
    await assert_no_residue(control)
    asked.clear()
    streaming, control = behind_a_gate(1, FakeEngine(step_s=1.0), PlainAdapter())
    assert await read(streaming, "b", 3) == 3
    assert asked == []
    await assert_no_residue(control)


@pytest.mark.parametrize("looks", [[0, 3, 3, 3], [0, None, None, None]], ids=["no progress", "unknown"])
@on_virtual_time
async def test_only_a_call_that_gets_no_further_has_stalled(looks: list[int | None]) -> None:
    """The same number of tokens at every poll is a stall; an engine that reports no progress is not suspected."""
    known = iter(looks)

    class ProgressAdapter(Silent):
        last: int | None = None

        def tokens(self, engine: Any, request_id: str) -> int | None:
            self.last = next(known, self.last)
            return self.last

    engine, control = behind_a_gate(1, Whole(), ProgressAdapter())
    reading = asyncio.create_task(read(engine, "a", 20, timeouts=Timeouts(stall_s=4.0)))
    for step in range(1, 80):
        asyncio.get_running_loop().call_later(0.25 * step, control.activity.step, None, 1, [])
    (result,) = await asyncio.gather(reading, return_exceptions=True)
    assert (getattr(result, "reason", None) is Reason.STALL_TIMEOUT) == (looks[-1] is not None), result
    await assert_no_residue(control)


async def test_closing_from_a_thread_waits_for_the_running_requests(caplog: pytest.LogCaptureFixture) -> None:
    """New requests are refused at once; the thread goes on when the last has ended, with what is left of its time."""
    caplog.set_level(logging.INFO, "headway.admission.engine_link")
    engine, control = behind_a_gate(1, FakeEngine(step_s=0.01))
    slow = engine.generate("text", FakeParams(3), "slow")
    await anext(slow)
    closing = asyncio.create_task(asyncio.to_thread(control.gateway.link.close_from_any_thread, 600.0))
    while control.gateway.gate.desk.mode.state is not AdmissionState.DRAINING:  # noqa: ASYNC110 - the other thread rings no bell here
        await asyncio.sleep(0.01)
    with pytest.raises(Refused):
        await read(engine, "new")
    assert not (await asyncio.wait({closing}, timeout=0.3))[0]
    assert [len(one.tokens) async for one in slow] == [2, 3]
    left_s = await closing
    assert left_s is not None
    assert 0.0 < left_s < 600.0
    assert "requests that may still finish, within 600 s: 1" in caplog.text


async def test_closing_from_a_thread_waits_no_longer_than_its_time_out() -> None:
    """The time-out has passed; none at all was given, and nothing is waited for on the loop itself."""
    engine, control = behind_a_gate(1, FakeEngine(step_s=0.01))
    slow = engine.generate("text", FakeParams(3), "slow")
    await anext(slow)
    close = control.gateway.link.close_from_any_thread
    assert await asyncio.to_thread(close, 0.01) == 0.0
    assert await asyncio.to_thread(close, None) is None
    assert close(5.0) == 5.0
    assert control.gateway.gate.desk.ledger.in_flight == 1
    await slow.aclose()


@on_virtual_time
async def test_an_engine_that_is_back_can_be_lost_again() -> None:
    """Lost, back, lost: each time all requests are refused."""
    engine, control = behind_a_gate(1)
    for _ in range(2):
        reading = asyncio.create_task(read(engine, "a", 100))
        await asyncio.sleep(0.5)
        engine.die()
        with pytest.raises(Refused):
            await reading
        assert control.gateway.link.engine_lost
        engine.revive()
        control.gateway.link.engine_back()
        assert not control.gateway.link.engine_lost
    assert await read(engine, "b") == 3
    await assert_no_residue(control)
    assert outcomes(control) == {"engine_lost": 2, "completed": 1}
