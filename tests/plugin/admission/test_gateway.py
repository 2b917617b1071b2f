"""The gateway: the engine calls of one request, their tickets and their seats."""

from __future__ import annotations

import asyncio
import gc
import math
from typing import Any

import pytest
from engines import ServingEngine, assert_no_residue, outcomes
from gate_state import usages
from gateway_calls import behind_a_gate, read
from gc_paused import gc_paused
from small_presets import small_preset
from virtual_time import on_virtual_time

from headway.admission.gate import Gate
from headway.admission.request_context import REQUEST_CONTEXT, RequestContext
from headway.engine.fake import FakeEngine, FakeParams
from headway.engine.port import Ended, Engine, PlainAdapter
from headway.errors import Refused, Rejected
from headway.openai.asked import Asked
from headway.operator.install import install, prepare
from headway.operator.presets import PresetCatalogue
from headway_policies import Ending, Usage


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
