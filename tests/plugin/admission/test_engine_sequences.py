"""The sequences that an engine has: counted until it confirms their end, and bounded for a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from engines import ServingEngine, assert_no_residue, outcomes
from gateway_calls import CountingKind, behind_a_gate, collect, read
from small_presets import small_preset
from virtual_time import on_virtual_time

from headway.admission.request_context import REQUEST_CONTEXT, RequestContext
from headway.engine.fake import FakeOutput, FakeParams
from headway.engine.port import Ended, PlainAdapter
from headway.errors import TooWideError
from headway.openai.asked import Asked, read_asked
from headway.openai.routes import route_at
from headway.operator.install import install, prepare
from headway.operator.presets import PresetCatalogue
from headway_policies import Ending


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
    engine, control = behind_a_gate(4, max_num_seqs=8)
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


@on_virtual_time
async def test_a_request_whose_grammar_is_compiled_first_is_as_wide(context: RequestContext) -> None:
    """It is refused before its first call where it is too wide; else that call takes the seats of all its answers."""
    engine, control = behind_a_gate(4, max_num_seqs=8)
    context.asked = Asked(large_grammar=True)
    with pytest.raises(TooWideError, match="asks for 9 sequences"):
        engine.check_admission(9)
    engine.check_admission(4)
    assert context.permit is None
    assert await read(engine, "a") == 3
    assert context.permit is not None
    assert context.permit.ticket.seats == 4
    context.permit.leave(Ending.COMPLETED)
    await assert_no_residue(control)


@on_virtual_time
async def test_answers_that_vllm_does_not_announce_are_read_in_the_body(context: RequestContext) -> None:
    """The route that takes token ids announces one answer, whatever ``n`` its sampling parameters have."""
    engine, _ = behind_a_gate(4, max_num_seqs=8)
    route = route_at("/inference/v1/generate")
    context.asked = read_asked(route, b'{"token_ids": [1], "sampling_params": {"n": 9}}')
    with pytest.raises(TooWideError, match="asks for 9 sequences"):
        engine.check_admission(1)
    context.asked = read_asked(route, b'{"token_ids": [1], "sampling_params": {"n": 3}}')
    engine.check_admission(1)
    assert context.permit is not None
    assert context.permit.ticket.seats == 3


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


@on_virtual_time
async def test_the_pieces_of_long_audio_run_as_many_at_once_as_there_are_seats() -> None:
    """vLLM cuts it, and gives each piece to the engine at once; the calls of a request of text are not held up."""
    for path, most in (("/v1/audio/transcriptions", 3), ("/v1/completions", 40)):
        engine: Any = Counting(step_s=1.0)
        install(prepare(engine, PlainAdapter(), small_preset(3)), PresetCatalogue())
        token = REQUEST_CONTEXT.set(RequestContext("normal", asked=Asked(route_at(path))))
        try:
            engine.check_admission(1)
            calls = [collect(engine.generate("text", FakeParams(2), f"g{number}")) for number in range(40)]
            await asyncio.gather(*calls)
        finally:
            REQUEST_CONTEXT.reset(token)
        assert engine.most_at_once == most
        engine.shutdown()


class Counting(ServingEngine):
    """Notes how many calls run at once."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.most_at_once = 0

    async def generate(
        self, prompt: Any, sampling_params: Any, request_id: str, **options: Any
    ) -> AsyncGenerator[FakeOutput, None]:
        async for output in super().generate(prompt, sampling_params, request_id, **options):
            self.most_at_once = max(self.most_at_once, len(self.running))
            yield output
