"""Seats and the engine: never fewer seats taken than the engine has sequences, and a bound for a single request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from engines import ServingEngine, assert_no_residue, outcomes
from gateway_calls import CountingKind, behind_a_gate, collect, leave_while_it_runs, read
from small_presets import small_preset
from virtual_time import on_virtual_time

from headway.admission.request_context import REQUEST_CONTEXT, RequestContext
from headway.engine import EngineLife
from headway.engine.fake import FakeOutput, FakeParams
from headway.engine.pending_queries import Confirmation, PendingQueries
from headway.engine.port import PlainAdapter
from headway.errors import NoEngineError
from headway.operator.control import Control
from headway.operator.install import install, prepare
from headway.operator.presets import PresetCatalogue
from headway_policies import Ending


@on_virtual_time
async def test_a_cancelled_request_keeps_its_seats_until_the_engine_confirms_the_abort() -> None:
    """The client has disconnected and its outcome is written at once; the seats are free when the engine confirms, not
    before."""
    engine, control = behind_a_gate(seats=2)
    reader = asyncio.create_task(read(engine, "wide", tokens=50, n=2))
    await asyncio.sleep(3.5)
    engine.stalled = True
    await leave_while_it_runs(reader)
    await asyncio.sleep(5.0)
    assert outcomes(control) == {"cancelled_running": 1}
    assert (control.gateway.sequences, control.gateway.gate.desk.seats_taken) == (2, 2)
    waiting = asyncio.create_task(read(engine, "next"))
    await asyncio.sleep(5.0)
    assert engine.started == ["wide"]
    engine.stalled = False
    assert await waiting == 3
    await assert_no_residue(control)


@on_virtual_time
async def test_an_engine_that_dies_frees_the_seats_of_the_aborts_it_never_confirmed() -> None:
    """A dead engine holds no sequence, so no seat waits for its confirmation."""
    engine, control = behind_a_gate(seats=2)
    reader = asyncio.create_task(read(engine, "one", tokens=50))
    await asyncio.sleep(2.5)
    engine.stalled = True
    await leave_while_it_runs(reader)
    await asyncio.sleep(1.5)
    assert control.gateway.sequences == 1
    engine.die()
    control.gateway.link.check_engine()
    await asyncio.sleep(2.5)
    assert control.gateway.sequences == 0
    assert control.gateway.link.calls.stopping == {}
    assert control.gateway.gate.desk._lifecycle.records == {}


@pytest.mark.parametrize(("report", "pings"), [(0, 2), (2, 5)], ids=["comes", "counts others"])
@on_virtual_time
async def test_seats_wait_for_a_report_that_does_not_count_them_and_not_without_end(report: int, pings: int) -> None:
    """A report from before the abort may come after its answer; one that counts another front end's never drops."""
    kind = CountingKind()
    engine, control = behind_a_gate(seats=2, kind=kind)
    reader = asyncio.create_task(read(engine, "one", tokens=50, n=2))
    await asyncio.sleep(2.5)
    control.gateway.engine_stepped([], 2)
    kind.on_second_ping = lambda: control.gateway.engine_stepped([], report)
    await leave_while_it_runs(reader)
    await asyncio.sleep(1.5)
    assert (control.gateway.sequences, kind.pings) == (0, pings)
    await assert_no_residue(control)


@on_virtual_time
async def test_requests_that_disconnect_together_share_a_confirmation() -> None:
    """Fifty disconnects at once cost the engine a handful of queries, not fifty."""
    kind = CountingKind()
    engine, control = behind_a_gate(seats=64, kind=kind)
    readers = [asyncio.create_task(read(engine, f"r{number}", tokens=50)) for number in range(50)]
    await asyncio.sleep(2.5)
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    await assert_no_residue(control)
    assert 1 <= kind.pings <= 3


@on_virtual_time
async def test_a_confirmation_counts_only_for_what_was_sent_before_it_was_asked_for() -> None:
    """A request that ends while a query is open waits for the answer to the next one."""
    answers: list[asyncio.Future[None]] = []

    async def ask() -> None:
        answers.append(asyncio.get_running_loop().create_future())
        await answers[-1]

    confirmation = Confirmation(ask)
    first = asyncio.create_task(confirmation.wait())
    await asyncio.sleep(1)
    late = [asyncio.create_task(confirmation.wait()) for _ in range(3)]
    await asyncio.sleep(1)
    assert len(answers) == 1
    answers[0].set_result(None)
    await asyncio.sleep(1)
    assert first.done()
    assert not any(one.done() for one in late)
    assert len(answers) == 2
    answers[1].set_result(None)
    await asyncio.gather(*late)
    assert len(answers) == 2


@on_virtual_time
async def test_a_request_given_up_frees_its_seats_when_the_engine_has_confirmed_it() -> None:
    """Its time is over while its client does not read: the abort is confirmed, and the seat is free all the same."""
    engine, control = behind_a_gate(seats=1)
    async with aclosing(engine.generate("text", FakeParams(50), "slow", timeout_s=3.0)) as stream:
        await anext(stream)
        await asyncio.sleep(10)
        assert control.gateway.sequences == 0
        assert await read(engine, "next") == 3
    await assert_no_residue(control)


@on_virtual_time
async def test_a_request_that_is_still_being_added_keeps_its_seat_while_it_is_given_up() -> None:
    """An abort that overtakes its own request proves nothing: the seat is free when the call is over."""
    engine, control = behind_a_gate(seats=1, add_s=20.0)
    reader = asyncio.create_task(collect(engine.generate("text", FakeParams(5), "slow", timeout_s=3.0)))
    await asyncio.sleep(10)
    assert control.gateway.open_calls == 1
    assert control.gateway.sequences == 1
    await asyncio.gather(reader, return_exceptions=True)
    await assert_no_residue(control)


class Closing(ServingEngine):
    """Notes when a stream is closed, and when its abort comes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.events: list[str] = []

    async def generate(
        self, prompt: Any, sampling_params: FakeParams, request_id: str, *, priority: int = 0, **options: Any
    ) -> AsyncGenerator[FakeOutput, None]:
        try:
            async for output in super().generate(prompt, sampling_params, request_id, priority=priority):
                yield output
        finally:
            self.events.append(f"{request_id} closed")

    async def abort(self, request_id: str) -> None:
        self.events.append(f"{request_id} aborted")
        await super().abort(request_id)


@on_virtual_time
async def test_the_stream_of_a_caller_that_breaks_off_is_closed() -> None:
    """Before its abort, and not whenever the collector comes by."""
    engine: Any = Closing(step_s=1.0)
    control = install(prepare(engine, PlainAdapter(), small_preset(1)), PresetCatalogue())
    stream = engine.generate("text", FakeParams(50), "a")
    await anext(stream)
    await stream.aclose()
    await asyncio.sleep(1.5)
    assert engine.events == ["a closed", "a aborted"]
    await assert_no_residue(control)


@on_virtual_time
async def test_what_an_engine_says_after_its_end_is_not_shown() -> None:
    """A request that waits for the next engine gets that one's answer alone, from its first token."""
    engine, control = behind_a_gate(seats=1)
    answer = asyncio.create_task(collect(engine.generate("text", FakeParams(4), "a")))
    await asyncio.sleep(0.5)
    control.gateway.link.engine_restarting()
    await asyncio.sleep(2.0)
    assert not answer.done()
    control.gateway.link.engine_back()
    assert [len(one.tokens) for one in await answer] == [1, 2, 3, 4]
    assert len(engine.started) == 2
    await assert_no_residue(control)


class Waits:
    """A death handler that keeps the requests: another engine is coming."""

    def __init__(self, control: Control) -> None:
        self.control = control

    def handle_death(self) -> None:
        self.control.gateway.link.engine_restarting()


@pytest.mark.parametrize("follow_up", [False, True], ids=["the response is being sent", "another call follows"])
@on_virtual_time
async def test_a_request_that_has_all_of_its_call_loses_nothing_with_the_engine(follow_up: bool) -> None:
    """One outcome, completed: it is not queued again; a follow-up call goes to the next engine."""
    around = RequestContext(class_name="batch")
    token = REQUEST_CONTEXT.set(around)
    engine, control = behind_a_gate(seats=1)
    link, gate = control.gateway.link, control.gateway.gate
    link.death_handler = Waits(control)
    assert await read(engine, "a") == 3
    engine.die()
    link.check_engine()
    permit = around.permit
    assert permit is not None
    assert (permit.waiting, permit.requeues, gate.desk.read(gate.now_s()).suspects) == (False, 0, 0)
    if follow_up:
        again = asyncio.create_task(read(engine, "b"))
        await asyncio.sleep(2.0)
        assert not again.done()
        engine.revive()
        link.engine_back()
        assert await again == 3
    permit.leave(Ending.COMPLETED)
    assert outcomes(control) == {"completed": 1}
    REQUEST_CONTEXT.reset(token)


def test_an_engine_link_whose_loop_has_not_begun_or_is_over_can_be_closed() -> None:
    """From a thread without a loop, before the first request and after the last."""
    _, control = behind_a_gate(4)
    assert control.gateway.link.close_from_any_thread(None) is None

    async def serve() -> Control:
        engine, used = behind_a_gate(4)
        await read(engine, "a", tokens=1)
        return used

    used = asyncio.run(serve())
    assert used.gateway.link.close_from_any_thread(None) is None
    used.gateway.link.closed_from_any_thread()


@on_virtual_time
async def test_a_background_task_that_is_cancelled_is_no_error() -> None:
    """As when the loop ends: nothing is reported, and no error is raised where it could not be caught."""
    _, control = behind_a_gate(4)
    reported: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    control.gateway.link.loop.run_apart(asyncio.sleep(100))
    (task,) = control.gateway.link.loop.tasks
    task.cancel()
    await asyncio.sleep(1)
    assert reported == []
    assert control.gateway.link.loop.tasks == set()


class AbortFails(ServingEngine):
    """An engine whose abort fails."""

    async def abort(self, request_id: str) -> None:
        raise RuntimeError("no such call")


@pytest.mark.parametrize(("state", "said"), [("life", 0), ("closing", 0), (None, 1)])
@on_virtual_time
async def test_an_abort_that_fails_is_logged_of_an_engine_that_should_accept_it(
    state: str | None, said: int, caplog: pytest.LogCaptureFixture
) -> None:
    """An engine that died, or that is being closed, has nothing to abort."""
    engine: Any = AbortFails(step_s=1.0)
    control = install(prepare(engine, PlainAdapter(), small_preset(1)), PresetCatalogue())
    stream = engine.generate("text", FakeParams(50), "a")
    await anext(stream)
    if state is not None:
        setattr(control.gateway.link, state, EngineLife.DEAD if state == "life" else True)
    await stream.aclose()
    await asyncio.sleep(2)
    assert sum("could not abort" in record.getMessage() for record in caplog.records) == said


@on_virtual_time
async def test_a_question_that_cannot_be_answered_says_why() -> None:
    """The engine died first, or the time was over; in both cases no state of it is kept."""
    queries, forever = PendingQueries(), asyncio.get_running_loop().create_future()

    async def ask() -> None:
        await forever

    with pytest.raises(TimeoutError, match=r"^no answer within 2 s$"):
        await queries.ask(ask(), 2.0)
    waiting = asyncio.create_task(queries.ask(ask()))
    await asyncio.sleep(1)
    queries.end()
    with pytest.raises(NoEngineError, match=r"^the engine died before it answered$"):
        await waiting
    assert queries._open == set()
