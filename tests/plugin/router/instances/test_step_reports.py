"""What the desk of a router hears of its instances: steps by the streams, else by the counts of the metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from instance_pools import pool_of
from virtual_time import on_virtual_time

from headway.engine import Ended
from headway.router.instances.pool import InstancePool
from headway.router.instances.reading import InstanceReading
from headway.router.instances.step_reports import StepReports, StepSource
from headway_policies import Load


class Listener:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.steps: list[Load] = []
        self.looks: list[Load] = []

    def step(self, load: Load | None, sequences: int, ended: Sequence[Ended]) -> None:
        assert load is not None
        self.steps.append(load)

    def seen(self, load: Load) -> None:
        self.looks.append(load)


def reports(*, exclusive: bool = False, source: StepSource | None = None) -> tuple[StepReports, InstancePool, Listener]:
    """Of two healthy instances."""
    pool = pool_of("a", "b", exclusive=exclusive)
    found, listener = StepReports(pool, source), Listener()
    found.listener = listener
    return found, pool, listener


@on_virtual_time
async def test_the_events_of_a_stream_are_steps() -> None:
    """Without waiting for a heartbeat; its first tokens are known where every response is a stream."""
    made, pool, listener = reports()
    with made.timed(50, pool.links["a"], streams=True) as stream:
        for _ in range(20):
            await asyncio.sleep(0.02)
            made.came(stream, 1)
    assert {round(step.inter_token_s or 0, 6) for step in listener.steps} == {0.02}
    assert sum(step.first_tokens or 0 for step in listener.steps) == 1
    assert sum(step.steps for step in listener.steps) >= 12


@on_virtual_time
async def test_a_response_as_a_whole_is_timed_by_the_counts_of_the_instances() -> None:
    """Counts that grew since the last report count, of all instances together; one that began anew counts nothing."""
    made, pool, listener = reports()
    with made.timed(50, pool.links["a"], streams=False) as stream:
        assert stream is None
        made.came(stream, 1)
        made.report()
        for at, gaps in enumerate((10.0, 60.0, 20.0)):
            await asyncio.sleep(1.0)
            reading = InstanceReading(
                tokens=gaps + 1, prompt_tokens=gaps, gaps=gaps, gaps_s=0.04 * gaps, preemptions=float(at)
            )
            pool.read(pool.links["a"], reading, 0)
            made.report()
    first, second, grown, anew = listener.steps
    assert (first.inter_token_s, first.steps) == (None, 1)
    assert (second.inter_token_s, second.steps) == (0.04, 25)
    assert (grown.inter_token_s, grown.prefill_tokens, grown.preemptions) == (0.04, 2, 1)
    assert (anew.inter_token_s, anew.preemptions) == (None, 0)


@on_virtual_time
async def test_a_timed_stream_goes_before_the_counts() -> None:
    """Both in one report would be the same steps twice."""
    made, pool, listener = reports()
    made.report()
    with made.timed(50, pool.links["a"], streams=True) as stream:
        for _ in range(30):
            await asyncio.sleep(0.02)
            made.came(stream, 1)
        pool.read(pool.links["a"], InstanceReading(tokens=40, gaps=30.0, gaps_s=0.6), 1)
        made.report()
    assert listener.steps[-1].inter_token_s is None


@on_virtual_time
async def test_one_engine_that_computes_nothing_makes_no_step() -> None:
    """Else one that hangs would seem to work; its load is known all the same. Instances of others have heartbeats."""
    made, pool, listener = reports(exclusive=True)
    pool.read(pool.links["a"], InstanceReading(running=1, tokens=10.0), 0)
    made.report()
    made.report()
    assert (len(listener.steps), len(listener.looks)) == (1, 1)


class Written:
    """The steps that an engine has written down."""

    def __init__(self) -> None:
        self.steps: list[tuple[Load, int]] = []
        self.written = [False]

    def read(self) -> list[tuple[Load, int]]:
        found, self.steps = self.steps, []
        self.written = [self.written[0] or bool(found)]
        return found

    def forget(self) -> None:
        self.steps, self.written = [], [False]


@on_virtual_time
async def test_the_steps_that_the_engine_writes_down_go_before_all_else() -> None:
    """Each of them once, with the next piece of any response; an engine that writes none is known by its streams."""
    source = Written()
    made, pool, listener = reports(exclusive=True, source=source)
    pool.read(pool.links["a"], InstanceReading(kv_tokens=400.0), 0)
    pool.read(pool.links["b"], InstanceReading(kv_tokens=200.0), 0)
    made.report()
    with made.timed(50, pool.links["a"], streams=True) as stream:
        for _ in range(20):
            await asyncio.sleep(0.02)
            made.came(stream, 1)
        assert max(step.steps for step in listener.steps) > 1
        listener.steps.clear()
        for number in range(20):
            await asyncio.sleep(0.02)
            source.steps += [(Load(2, 1, 0.5, 0.01, number), 2)] * 2
            made.came(stream if number % 2 else None, 1)
    made.report()
    assert [step.prefill_tokens for step in listener.steps] == [number for number in range(20) for _ in "ab"]
    assert {(step.kv_capacity_tokens, step.waiting, step.steps) for step in listener.steps} == {(600, 1, 1)}


@on_virtual_time
async def test_the_next_engine_is_known_by_its_streams_until_it_writes_its_steps() -> None:
    """Also if it never does."""
    source = Written()
    made, pool, listener = reports(exclusive=True, source=source)
    source.steps.append((Load(2, 0, 0.5), 2))
    made.report()
    made.engine_gone()
    listener.steps.clear()
    with made.timed(50, pool.links["a"], streams=True) as stream:
        for _ in range(20):
            await asyncio.sleep(0.02)
            made.came(stream, 1)
    assert max(step.steps for step in listener.steps) > 1


@on_virtual_time
async def test_an_engine_that_writes_no_steps_any_more_is_seen() -> None:
    """Not as one that steps, however its metrics grow; what it has written by then is reported with the heartbeat."""
    source = Written()
    made, pool, listener = reports(exclusive=True, source=source)
    source.steps.append((Load(2, 0, 0.5), 2))
    made.report()
    assert (len(listener.steps), len(listener.looks)) == (1, 0)
    pool.read(pool.links["a"], InstanceReading(running=1, tokens=10.0, gaps=9.0, gaps_s=0.2), 0)
    made.report()
    assert (len(listener.steps), len(listener.looks)) == (1, 1)


@on_virtual_time
async def test_what_a_stream_takes_is_counted_for_its_instance() -> None:
    """From the seat to its first token, and between two tokens; not what its client kept it waiting for, and nothing of
    a response that is not timed.
    """
    made, pool, _ = reports()
    link = pool.links["a"]
    with made.timed(50, link, streams=True) as stream:
        await asyncio.sleep(0.3)
        made.came(stream, 1)
        for tokens in (1, 2, 1):
            await asyncio.sleep(0.02 * tokens)
            made.came(stream, tokens)
            made.taken(stream)
        await asyncio.sleep(1.0)
        made.taken(stream)  # late
        made.came(stream, 1)
    with made.timed(50, link, streams=False) as nothing:
        made.came(nothing, 3)
    first, between = link.first_token.read(0.0), link.inter_token.read(0.0)
    assert (first.count, round(first.total, 3)) == (1, 0.3)
    assert (between.count, round(between.total, 3)) == (3, 0.06)
    assert pool.links["b"].first_token.read(0.0).count == 0
