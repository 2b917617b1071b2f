"""The accounts of requests: their sum is what the engine has counted, however requests end, and each has one record."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest
from engines import ServingEngine, assert_no_residue, outcomes
from gateway_calls import leave_while_it_runs, read
from hypothesis import example, given
from hypothesis import strategies as st
from small_presets import small_preset
from virtual_time import new_loop, on_virtual_time

from headway.admission import ModelNames
from headway.admission.request_context import REQUEST_CONTEXT, RequestContext
from headway.engine.fake import FakeOutput, FakeParams
from headway.engine.port import Ended, PlainAdapter, StepListener
from headway.errors import Refused
from headway.openai.asked import Asked
from headway.operator import ServerIdentity
from headway.operator.control import Control
from headway.operator.install import Surroundings, install, prepare
from headway.operator.presets import PresetCatalogue
from headway_policies import Ending, Load
from headway_policies.usage import SERVER, Figures, UsageRecord, total

PROMPT = "a text of eight tokens in all___"


class Records:
    """What an accounting would write."""

    prices = None

    def __init__(self) -> None:
        self.made: list[UsageRecord] = []

    def add(self, record: UsageRecord) -> None:
        """Keep it."""
        self.made.append(record)

    @property
    def tokens(self) -> tuple[int, int]:
        """Of prompts and of answers, over all tenants."""
        summed = total(record.figures for record in self.made)
        return summed.prompt_tokens, summed.output_tokens


class CountedEngine(ServingEngine):
    """Counts as vLLM does: a prompt with its first token, each token in the step that made it, until an abort.

    It reports a sequence when it has ended, and forgets one that is aborted. ``overtaken``: an answer is read before
    its end is reported.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.counted = [0, 0]
        self.states: dict[str, list[int]] = {}
        self.overtaken = False
        self.listener: StepListener | None = None

    def listen(self, listener: StepListener) -> None:
        """Report to it from now on."""
        self.listener = listener

    async def generate(
        self, prompt: Any, sampling_params: FakeParams, request_id: str, *, priority: int = 0, **options: Any
    ) -> AsyncGenerator[FakeOutput, None]:
        """As the fake's own, with counts."""
        width = sampling_params.n
        state = self.states[request_id] = [0, 0]
        try:
            async for output in super().generate(prompt, sampling_params, request_id, priority=priority):
                if request_id in self.states and output.finish_reason != "abort":
                    self._count(state, 0 if state[0] else width * output.prompt_tokens, width)
                if output.finished and self.states.pop(request_id, None) is not None:
                    self._report(request_id, state, width)
                yield output
        except (asyncio.CancelledError, GeneratorExit):
            await self.abort(request_id)
            raise

    async def abort(self, request_id: str) -> None:
        """Forget it, and stop it."""
        self.states.pop(request_id, None)
        await super().abort(request_id)

    def _count(self, state: list[int], prompt_tokens: int, output_tokens: int) -> None:
        for into in (state, self.counted):
            into[0] += prompt_tokens
            into[1] += output_tokens
        if self.listener is not None:
            self.listener.step(Load(sum(self.running.values()), 0, 0.1), output_tokens, [])

    def _report(self, request_id: str, state: Sequence[int], width: int) -> None:
        assert self.listener is not None
        ended = [Ended(request_id, state[0] // width, state[1] // width) for _ in range(width)]
        if self.overtaken:
            asyncio.get_running_loop().call_later(0.5, self.listener.step, None, 0, ended)
        else:
            self.listener.step(None, 0, ended)


class CountedKind(PlainAdapter):
    """Knows what such an engine has counted of a call that it is about to forget."""

    def dropped(self, engine: Any, request_ids: Any, *, internal: bool) -> Sequence[Ended]:
        """As the engine has counted."""
        found = engine.states.get(request_ids)
        return [] if found is None else [Ended(request_ids, *found)]

    async def catch_up(self, engine: Any) -> None:
        """The reports that are under way have come."""
        await super().catch_up(engine)
        await asyncio.sleep(1.0)


def counted(seats: int = 2, *, kind: PlainAdapter | None = None, **options: Any) -> tuple[Any, Control, Records]:
    """Such an engine behind a gate, with an accounting."""
    engine: Any = CountedEngine(step_s=1.0, **options)
    records: Any = Records()
    preset = small_preset(seats, most_waiting=2)
    parts = prepare(engine, kind or CountedKind(), preset)
    around = Surroundings(ServerIdentity("the model"), usage=records)
    return engine, install(parts, PresetCatalogue(), around), records


async def served(engine: Any, tenant: str, name: str, tokens: int = 3, n: int = 1, **options: Any) -> None:
    """One request of a tenant, however it ends."""
    with suppress(Refused, RuntimeError):
        async for _ in engine.generate(PROMPT, FakeParams(tokens, n), name, tenant=tenant, **options):
            pass


REQUESTS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(0, 12),  # when it arrives
        st.integers(1, 6),  # tokens
        st.integers(1, 2),  # sequences
        st.one_of(st.none(), st.integers(0, 8)),  # when its client leaves
    ),
    max_size=14,
)


# the first is read before its end is reported, from an engine that dies in that moment
@example([("a", 7, 6, 1, None), ("a", 0, 1, 1, None), ("a", 0, 1, 1, None), ("a", 11, 1, 1, 0)], 13, False, True)
@example([("a", 0, 6, 2, None)], 6.25, False, True)  # all sequences of one call, in the same moment
@given(
    REQUESTS, st.one_of(st.none(), st.integers(4, 80).map(lambda quarters: quarters / 4)), st.booleans(), st.booleans()
)
def test_the_sum_over_tenants_is_what_the_engine_counts(
    wanted: list[tuple[str, int, int, int, int | None]], dies_s: float | None, comes_back: bool, overtaken: bool
) -> None:
    """Over refusals, clients that leave, an engine that dies, retries and late reports; one record for each request."""

    async def play() -> None:
        engine, control, records = counted()
        engine.overtaken = overtaken
        link = control.gateway.link
        if comes_back:
            link.death_handler = SimpleNamespace(handle_death=lambda: link.engine_restarting())

        async def client(number: int, tenant: str, at_s: int, tokens: int, n: int, leaves_s: int | None) -> None:
            await asyncio.sleep(at_s + 0.01 * number)
            task = asyncio.ensure_future(served(engine, tenant, f"r{number}", tokens, n))
            _, left = await asyncio.wait([task], timeout=leaves_s)
            for one in left:
                one.cancel()

        async def fate() -> None:
            if dies_s is not None:
                await asyncio.sleep(dies_s)
                engine.die()
                link.check_engine()
                if comes_back:
                    await asyncio.sleep(3.0)
                    engine.revive()
                    link.engine_back()

        async with asyncio.timeout(1000):
            await asyncio.gather(fate(), *(client(number, *one) for number, one in enumerate(wanted)))
            await asyncio.sleep(60.0)
        assert records.tokens == tuple(engine.counted)
        ended = Counter(record.group.outcome for record in records.made)
        assert ended == outcomes(control)
        arrived = [tenant for tenant, *_ in wanted]
        assert Counter(record.group.tenant for record in records.made) <= Counter(arrived)
        for record in records.made:
            assert record.group.model == "the model"
            assert min(record.figures) >= 0
        assert control.gateway.gate.listeners._open == {}
        control.gateway.gate.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(play())


@asynccontextmanager
async def left_while_it_stalls() -> AsyncIterator[tuple[Any, Control, Records]]:
    """An engine that stalls when the client of its only request leaves; in the end it goes on, and is left at rest."""
    engine, control, records = counted()
    reader = asyncio.create_task(served(engine, "a", "one", tokens=50))
    await asyncio.sleep(3.5)
    engine.stalled = True
    await leave_while_it_runs(reader)  # type: ignore[arg-type]  # its result is not asked for
    yield engine, control, records
    engine.stalled = False
    await asyncio.sleep(10.0)  # the engine's last report is of before
    await assert_no_residue(control)


@on_virtual_time
async def test_what_the_engine_counts_after_a_client_has_left_is_its_tenants() -> None:
    """The record waits for the abort, which the engine carries out after its outcome was written."""
    async with left_while_it_stalls() as (engine, control, records):
        await asyncio.sleep(1.0)
        assert outcomes(control) == {"cancelled_running": 1}
    (record,) = records.made
    assert (record.group.tenant, record.group.outcome, record.figures.output_tokens) == ("a", "cancelled_running", 3)
    assert records.tokens == tuple(engine.counted)


@on_virtual_time
async def test_a_record_has_the_times_and_the_names_of_its_request() -> None:
    """Its seats for as long as it had them, its wait before, its key and class; never anything else of it."""
    engine, control, records = counted(seats=2)
    first = asyncio.create_task(served(engine, "a", "wide", tokens=4, n=2))
    await asyncio.sleep(0)
    token = REQUEST_CONTEXT.set(context := RequestContext(tenant="b", key="b-1"))
    await served(engine, "", "next", tokens=2)
    REQUEST_CONTEXT.reset(token)
    assert context.permit is not None
    context.permit.leave(Ending.COMPLETED)
    await first
    wide, later = sorted(records.made, key=lambda record: record.group.tenant)
    assert (wide.figures.seat_s, wide.figures.queue_s) == (pytest.approx(8.0, abs=0.1), 0.0)
    assert (later.figures.seat_s, later.figures.queue_s) == (pytest.approx(2.0, abs=0.1), pytest.approx(4.0, abs=0.1))
    assert (wide.group.key, later.group.key, later.group.class_name, later.group.reason) == ("", "b-1", "normal", "")
    assert wide.figures.kv_token_s == pytest.approx(2 * (1 * 8 / 2 + 3 * (8 + 4 / 2)), rel=0.1)
    control.gateway.gate.close()


@on_virtual_time
async def test_a_refusal_is_recorded_with_its_reason_and_no_tokens() -> None:
    """Also one on arrival, which never had a call."""
    engine, control, records = counted(seats=1)
    tasks = [asyncio.create_task(served(engine, "a", f"r{number}", tokens=2)) for number in range(5)]
    await asyncio.gather(*tasks)
    await assert_no_residue(control)
    refused = [record for record in records.made if record.group.reason]
    assert {record.group[-2:] for record in refused} == {("rejected_full", "queue_full")}
    assert [record.figures for record in refused] == [Figures(requests=1, refused=1)] * 2
    assert total(record.figures for record in records.made)[:2] == (5, 2)


@on_virtual_time
async def test_a_name_that_a_client_makes_up_is_in_no_record() -> None:
    """It is a request of the model itself, however it ends; an adapter that answers has its name from its first on."""
    engine, control, records = counted()
    control.gateway.names = ModelNames({"the model"})
    for name, ending in (("made up", Ending.INVALID), ("refused", Ending.CANCELLED), ("loaded", Ending.COMPLETED)):
        token = REQUEST_CONTEXT.set(context := RequestContext(asked=Asked(model=name)))
        permit = control.gateway.reserve(context, 1)
        if ending is Ending.COMPLETED:
            await served(engine, "", name)
        permit.leave(ending)
        REQUEST_CONTEXT.reset(token)
    await assert_no_residue(control)
    assert [(record.group.adapter, record.group.outcome) for record in records.made] == [
        ("", "rejected_invalid"), ("", "cancelled_running"), ("loaded", "completed"),
    ]  # fmt: skip


@on_virtual_time
async def test_what_no_request_has_asked_for_is_the_servers() -> None:
    """A warm-up, say: the engine counts it, so it must be somewhere."""
    engine, control, records = counted()
    stream = engine._headway_gateway.link.engine.generate  # its own requests pass without a permit
    token = REQUEST_CONTEXT.set(RequestContext(bypass=True))
    async for _ in stream(PROMPT, FakeParams(3), "headway-warmup"):
        pass
    REQUEST_CONTEXT.reset(token)
    assert [(record.group.tenant, record.figures.output_tokens) for record in records.made] == [(SERVER, 3)]
    assert records.tokens == tuple(engine.counted)
    control.gateway.gate.close()


@on_virtual_time
async def test_an_engine_that_reports_nothing_is_counted_by_its_last_outputs() -> None:
    """Such as instances behind a router."""
    engine: Any = ServingEngine(step_s=1.0)
    records: Any = Records()
    control = install(prepare(engine, PlainAdapter(), small_preset(2)), PresetCatalogue(), Surroundings(usage=records))
    await read(engine, "one", tokens=3)
    reader = asyncio.create_task(read(engine, "two", tokens=30))
    await asyncio.sleep(4.5)
    await leave_while_it_runs(reader)
    await assert_no_residue(control)
    assert sorted(record.figures.output_tokens for record in records.made) == [3, 4]


@on_virtual_time
async def test_a_server_that_ends_records_what_is_over() -> None:
    """Without waiting for an engine that answers no more; once."""
    async with left_while_it_stalls() as (_, control, records):
        control.gateway.gate.listeners.close_accounts()
        assert [record.figures.output_tokens for record in records.made] == [3]
    assert len(records.made) == 1
