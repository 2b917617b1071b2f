"""Seats and the engine: never fewer seats taken than the engine has sequences, and a bound for a single request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest
from engines import ServingEngine, assert_no_residue, outcomes
from small_presets import small_preset
from virtual_time import on_virtual_time

from headway.admission.request_context import REQUEST_CONTEXT, RequestContext
from headway.engine import EngineLife
from headway.engine.fake import FakeOutput, FakeParams
from headway.engine.pending_queries import Confirmation, PendingQueries
from headway.engine.port import Answer, Ended, PlainAdapter
from headway.errors import NoEngineError, TooWideError
from headway.openai.asked import Asked
from headway.operator.control import Control
from headway.operator.install import install, prepare
from headway.operator.presets import PresetCatalogue
from headway_policies import Ending


class CountingKind(PlainAdapter):
    """Counts how often the engine is asked to confirm; with ``late`` its sequences outlive their end for a moment."""

    def __init__(self, *, late: bool = False) -> None:
        self.pings = 0
        self.on_second_ping: Callable[[], None] = lambda: None
        self.late = late

    def ends_late(self, sampling_params: Any) -> bool:
        return self.late

    async def ping(self, engine: Any) -> Answer | None:
        self.pings += 1
        if self.pings == 2:
            self.on_second_ping()
        return await super().ping(engine)


def behind_a_gate(seats: int = 4, kind: PlainAdapter | None = None, **options: Any) -> tuple[Any, Control]:
    engine: Any = ServingEngine(step_s=1.0, **options)
    return engine, install(prepare(engine, kind or PlainAdapter(), small_preset(seats)), PresetCatalogue())


@pytest.fixture
def context() -> Iterator[RequestContext]:
    """An HTTP request around all calls of the test."""
    around = RequestContext(class_name="batch")
    token = REQUEST_CONTEXT.set(around)
    yield around
    REQUEST_CONTEXT.reset(token)


async def read(engine: Any, request_id: str, tokens: int = 3, n: int = 1) -> int:
    return len([one async for one in engine.generate("text", FakeParams(tokens, n), request_id)])


async def leave_while_it_runs(reader: asyncio.Task[int]) -> None:
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader


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
    assert control.gateway.link.calls.stopping == set()
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


async def collect(stream: AsyncGenerator[Any, None]) -> list[Any]:
    return [one async for one in stream]


@on_virtual_time
async def test_a_request_wider_than_the_limit_is_counted_with_all_its_sequences() -> None:
    """Under a limit of two, four sequences go to the engine: two seats of the limit, and four in the figure."""
    engine, control = behind_a_gate(seats=2, max_num_seqs=8)
    reader = asyncio.create_task(read(engine, "wide", tokens=5, n=4))
    await asyncio.sleep(1.5)
    assert (control.gateway.gate.desk.seats_taken, control.gateway.sequences) == (2, 4)
    assert control.status().seats_taken == 4
    assert await reader == 5
    await assert_no_residue(control)


@on_virtual_time
async def test_a_sequence_that_ends_here_first_is_counted_until_the_engine_confirms_it() -> None:
    """A stop string is found on this side: its seat is free for the next request, and the figure still has it."""
    engine, control = behind_a_gate(seats=1, kind=CountingKind(late=True))
    stream = engine.generate("text", FakeParams(50), "stops")
    await anext(stream)
    engine.stalled = True
    control.gateway.engine_stepped([Ended("stops", 1, 1)])
    await asyncio.sleep(3)
    assert (control.gateway.gate.desk.seats_taken, control.gateway.sequences) == (0, 1)
    engine.stalled = False
    await asyncio.sleep(3)
    assert control.gateway.sequences == 0
    await stream.aclose()
    await assert_no_residue(control)


@on_virtual_time
async def test_a_last_output_that_overtakes_the_report_of_its_end_is_counted_until_the_engine_confirms_it() -> None:
    """The client has its answer and the seat is free; the figure still has the sequence, as the engine's own has."""
    engine, control = behind_a_gate(seats=2)
    control.gateway.engine_stepped([], 1)
    stream = engine.generate("text", FakeParams(2), "a")
    assert await anext(stream)
    assert (await anext(stream)).finished
    engine.stalled = True
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    await asyncio.sleep(2)
    assert (control.gateway.gate.desk.seats_taken, control.gateway.sequences) == (0, 1)
    control.gateway.engine_stepped([Ended("a", 1, 2)], 0)
    assert control.gateway.sequences == 1
    engine.stalled = False
    await asyncio.sleep(2)
    assert control.gateway.sequences == 0
    await assert_no_residue(control)


@on_virtual_time
async def test_the_servers_own_requests_are_counted_among_the_sequences() -> None:
    """A warm-up goes past the gate: it takes no seat of the limit, and stands in the figure."""
    engine, control = behind_a_gate(seats=1)
    token = REQUEST_CONTEXT.set(RequestContext(bypass=True))
    own = asyncio.create_task(read(engine, "own", tokens=4, n=2))
    REQUEST_CONTEXT.reset(token)
    await asyncio.sleep(1.5)
    assert (control.gateway.gate.desk.seats_taken, control.gateway.sequences) == (0, 2)
    await own
    await assert_no_residue(control)


@pytest.mark.parametrize(("prompts", "n"), [(1, 9), (9, 1), (3, 3), (1000, 64)])
@on_virtual_time
async def test_a_request_that_asks_for_more_sequences_than_the_engine_has_is_refused(
    prompts: int, n: int, context: RequestContext
) -> None:
    """Prompts x n above the ceiling: one clear error that names the numbers, and nothing is booked."""
    engine, control = behind_a_gate(max_num_seqs=8)
    context.asked = Asked(prompts=prompts)
    with pytest.raises(TooWideError, match=f"asks for {prompts * n} sequences .*takes 8 in one request"):
        engine.check_admission(n)
    assert outcomes(control) == {}
    assert context.permit is None


@pytest.mark.parametrize(("most", "prompts", "n", "fits"), [(4, 2, 2, True), (4, 5, 1, False), (20, 5, 4, True)])
@on_virtual_time
async def test_the_bound_of_a_request_can_be_set(
    most: int, prompts: int, n: int, fits: bool, context: RequestContext
) -> None:
    """Below the ceiling or above it: what is above it runs in the engine's own queue, and is counted."""
    engine, control = behind_a_gate(seats=3, max_num_seqs=8)
    control.gateway.max_request_seats = most
    context.asked = Asked(prompts=prompts)
    if not fits:
        with pytest.raises(TooWideError):
            engine.check_admission(n)
        return
    engine.check_admission(n)
    assert context.permit is not None
    assert context.permit.ticket.seats == prompts * n == control.gateway.sequences


class Inputs(ServingEngine):
    """Notes how many pooling calls run at once."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.most_at_once = 0

    async def encode(
        self, prompt: Any, pooling_params: Any, request_id: str, *, priority: int = 0, **options: Any
    ) -> AsyncGenerator[FakeOutput, None]:
        async for output in super().encode(prompt, pooling_params, request_id, priority=priority):
            self.most_at_once = max(self.most_at_once, len(self.running))
            yield output


@on_virtual_time
async def test_a_long_list_of_inputs_runs_as_many_at_once_as_there_are_seats(context: RequestContext) -> None:
    """Forty embeddings in one request: all of them are made, three at a time."""
    engine: Any = Inputs(step_s=1.0)
    control = install(prepare(engine, PlainAdapter(), small_preset(3)), PresetCatalogue())
    engine.check_admission(1)
    calls = [collect(engine.encode("text", None, f"e{number}")) for number in range(40)]
    answers = await asyncio.gather(*calls)
    assert [len(one) for one in answers] == [1] * 40
    assert engine.most_at_once == 3
    assert control.gateway.sequences <= 3


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
    _, control = behind_a_gate()
    assert control.gateway.link.close_from_any_thread(None) is None

    async def serve() -> Control:
        engine, used = behind_a_gate()
        await read(engine, "a", tokens=1)
        return used

    used = asyncio.run(serve())
    assert used.gateway.link.close_from_any_thread(None) is None
    used.gateway.link.closed_from_any_thread()


@on_virtual_time
async def test_a_background_task_that_is_cancelled_is_no_error() -> None:
    """As when the loop ends: nothing is reported, and no error is raised where it could not be caught."""
    _, control = behind_a_gate()
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
    assert sum("could not abort" in record.message for record in caplog.records) == said


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
