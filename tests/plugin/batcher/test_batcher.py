"""The batcher in virtual time: when a batch is dispatched, and how each request ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from batch_functions import Recorder, double, outcomes
from pydantic import TypeAdapter
from virtual_time import now_s, on_virtual_time, settle

from headway import Batcher, BatcherStats, Expired, Rejected, TimedOut
from headway.batcher.queue import QueueStats
from headway_policies import Outcome

# ---------------------------------------------------------------------- when a batch is dispatched


@on_virtual_time
async def test_a_full_batch_is_dispatched_at_once_and_a_part_filled_one_when_its_window_ends() -> None:
    """Four of six items fill a batch; the other two wait for the window, not for company that never comes."""
    record = Recorder()
    async with Batcher(record, max_batch_size=4, max_wait_ms=200) as batcher:
        assert await asyncio.gather(*map(batcher.submit, range(6))) == [double(item) for item in range(6)]
    assert record.batches == [[0, 1, 2, 3], [4, 5]]
    assert record.begun_s == pytest.approx([0.0, 0.2])


@on_virtual_time
async def test_five_requests_at_once_finish_in_three_fifths_of_the_serial_time() -> None:
    """A function that costs 0.6 s a call and 0.4 s an item: five requests take 5 s one by one."""

    async def process(items: list[int]) -> list[int]:
        await asyncio.sleep(0.6 + 0.4 * len(items))
        return items

    async with Batcher(process, max_batch_size=5) as batcher:
        await asyncio.gather(*map(batcher.submit, range(5)))
    assert now_s() <= 0.6 * 5.0


@on_virtual_time
async def test_the_most_urgent_do_not_wait_for_more_and_take_along_what_is_waiting() -> None:
    """An item of the highest priority sends the batch off, and those of lower priority fill it."""
    record = Recorder()
    async with Batcher(record, max_wait_ms=1000) as batcher, asyncio.TaskGroup() as group:
        group.create_task(batcher.submit(1))
        await asyncio.sleep(0.1)
        group.create_task(batcher.submit(2, priority=2))
    assert record.batches == [[2, 1]]
    assert record.begun_s == pytest.approx([0.1])


@on_virtual_time
async def test_the_most_urgent_may_be_configured_to_wait_a_little() -> None:
    """With ``urgent_wait_ms`` thin urgent traffic merges into one batch."""
    record = Recorder()
    async with Batcher(record, max_wait_ms=1000, urgent_wait_ms=20) as batcher, asyncio.TaskGroup() as group:
        for item in (1, 2):
            group.create_task(batcher.submit(item, priority=2))
            await asyncio.sleep(0.01)
    assert (record.batches, record.begun_s) == ([[1, 2]], pytest.approx([0.02]))


@on_virtual_time
async def test_an_idle_batcher_does_nothing() -> None:
    """After its work it keeps no task and no timer: an hour without requests has one timer, the test's own."""
    async with Batcher(Recorder()) as batcher:
        await batcher.submit(1)
        await settle()
        loop, timers = asyncio.get_running_loop(), list[float]()
        plain_call_at = loop.call_at

        def call_at(when: float, *args: Any, **options: Any) -> asyncio.TimerHandle:
            timers.append(when)
            return plain_call_at(when, *args, **options)

        loop.call_at = call_at  # type: ignore[method-assign]  # to count
        await asyncio.sleep(3600)
        assert len(timers) == 1
        assert asyncio.all_tasks() == {asyncio.current_task()}


# ---------------------------------------------------------------------- cancelled requests


@on_virtual_time
async def test_a_cancelled_item_is_taken_out_of_the_queue() -> None:
    """Its caller no longer waits, so the function never sees it."""
    record = Recorder()
    async with Batcher(record) as batcher:
        tasks = [asyncio.create_task(batcher.submit(item)) for item in range(3)]
        await settle()
        tasks[1].cancel()
        assert await asyncio.gather(tasks[0], tasks[2]) == [0, 4]
        assert outcomes(batcher) == {"completed": 2, "cancelled_queued": 1}
    assert record.batches == [[0, 2]]


@on_virtual_time
async def test_a_batch_without_waiting_callers_is_stopped() -> None:
    """When its last submitter goes away a coroutine is cancelled, and the next batch is dispatched at once."""
    record = Recorder(takes_s=10.0)
    async with Batcher(record, max_batch_size=2) as batcher:
        tasks = [asyncio.create_task(batcher.submit(item)) for item in range(4)]
        await asyncio.sleep(1.0)
        tasks[0].cancel()
        await asyncio.sleep(1.0)
        tasks[1].cancel()
        assert await asyncio.gather(*tasks[2:]) == [4, 6]
        assert outcomes(batcher) == {"completed": 2, "cancelled_running": 2}
    assert (record.begun_s, record.ended) == ([0.0, 2.0], 1)


@on_virtual_time
async def test_a_request_cancelled_while_members_run_singly_is_skipped() -> None:
    """The single runs after a failure are only for the items whose callers still wait."""
    record = Recorder(takes_s=1.0, bad=[0])
    async with Batcher(record, max_batch_size=3) as batcher:
        tasks = [asyncio.create_task(batcher.submit(item)) for item in range(3)]
        await asyncio.sleep(1.5)
        tasks[1].cancel()
        await asyncio.wait(tasks)
    assert record.batches == [[0, 1, 2], [0], [2]]


@on_virtual_time
async def test_an_expired_item_never_reaches_the_function() -> None:
    """Time that runs out in the queue is Expired, on time, and costs the function nothing."""
    record = Recorder(takes_s=1.0)
    async with Batcher(record, max_batch_size=1) as batcher:
        first = asyncio.create_task(batcher.submit(1))
        await settle()
        with pytest.raises(Expired):
            await batcher.submit(2, timeout=0.25)
        assert now_s() == pytest.approx(0.25)
        await first
    assert record.batches == [[1]]


@on_virtual_time
async def test_cancelled_in_the_very_turn_its_time_runs_out() -> None:
    """An item that is dispatched and expires at once is settled once, and the submitter sees its own cancellation."""
    async with Batcher(Recorder(), max_wait_ms=1000) as batcher:
        task = asyncio.create_task(batcher.submit(1, timeout=0.25))
        asyncio.get_running_loop().call_at(0.25, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sum(outcomes(batcher).values()) == 1


@on_virtual_time
async def test_time_that_runs_out_in_the_function_ends_only_that_item() -> None:
    """TimedOut comes on time; the batch goes on for the others, and the next one waits for its end."""
    record = Recorder(takes_s=1.0)
    async with Batcher(record, max_batch_size=2) as batcher:
        other, late = asyncio.create_task(batcher.submit(1)), asyncio.create_task(batcher.submit(3))
        with pytest.raises(TimedOut):
            await batcher.submit(2, timeout=0.5)
        assert now_s() == pytest.approx(0.5)
        assert await asyncio.gather(other, late) == [2, 6]
        assert outcomes(batcher) == {"completed": 2, "expired_running": 1}
    assert record.batches == [[2, 1], [3]]
    assert record.begun_s == pytest.approx([0.0, 1.0])


# ---------------------------------------------------------------------- the end


@on_virtual_time
async def test_drain_finishes_what_is_here_without_waiting_for_company() -> None:
    """Running and waiting items are served, new ones are Rejected, and no window is kept."""
    record = Recorder(takes_s=1.0)
    batcher = Batcher(record, max_batch_size=2, max_wait_ms=60_000)
    tasks = [asyncio.create_task(batcher.submit(item)) for item in range(3)]
    await settle()
    draining = asyncio.create_task(batcher.drain())
    await settle()
    with pytest.raises(Rejected, match="draining"):
        await batcher.submit(9)
    await draining
    assert [task.result() for task in tasks] == [0, 2, 4]
    assert now_s() == pytest.approx(2.0)


@on_virtual_time
async def test_close_ends_everything_now() -> None:
    """Running and waiting items are Rejected, and the function is stopped."""
    record = Recorder(takes_s=10.0)
    batcher = Batcher(record, max_batch_size=2)
    tasks = [asyncio.create_task(batcher.submit(item)) for item in range(3)]
    await asyncio.sleep(1.0)
    await batcher.close()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(answer) for answer in answers] == [Rejected] * 3
    assert (now_s(), record.ended) == (pytest.approx(1.0), 0)


@on_virtual_time
async def test_an_error_in_the_block_closes_instead_of_draining() -> None:
    """Like a task group: the error is not delayed by work whose result is not needed."""
    batcher = Batcher(Recorder(takes_s=10.0), max_wait_ms=0)
    task = asyncio.create_task(batcher.submit(1))

    async def block() -> None:
        async with batcher:
            await settle()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await block()
    with pytest.raises(Rejected):
        await task
    assert now_s() == 0.0


# ---------------------------------------------------------------------- its figures


@on_virtual_time
async def test_the_figures_show_what_waits_runs_and_has_happened() -> None:
    """One runs and four wait; in the end there were three batches of five requests."""
    async with Batcher(Recorder(takes_s=1.0), max_batch_size=2, max_wait_ms=0, max_size=4) as batcher:
        tasks = [asyncio.create_task(batcher.submit(item, item % 2)) for item in range(5)]
        await asyncio.sleep(0.5)
        during = batcher.stats()
        await asyncio.gather(*tasks)
        after = batcher.stats()
    assert during["queue_sizes"] == [2, 2, 0]
    assert (during["total_queued"], during["running"], during["max_size"], during["dropped"]) == (4, 1, 4, 0)
    assert (after["batches"], after["total_requests"], after["avg_batch_size"]) == (3, 5, pytest.approx(5 / 3))
    assert set(after["outcomes"]) == {str(outcome) for outcome in Outcome}
    assert TypeAdapter(BatcherStats).validate_python(after) == after


@pytest.mark.parametrize("figures", [BatcherStats, QueueStats])
def test_the_figures_are_a_type_that_pydantic_accepts(figures: type) -> None:
    """A response of FastAPI, or a field of a model: a schema with every key, on any Python that Headway supports."""
    schema = TypeAdapter(figures).json_schema()
    assert set(schema["properties"]) == set(schema["required"]) == set(figures.__annotations__)


@pytest.mark.parametrize("warm", [False, True], ids=["from the first batch", "after single items"])
@on_virtual_time
async def test_the_first_retry_after_fits_the_speed_of_the_function(warm: bool) -> None:
    """2000 items wait for a function that takes 20 ms for 32 of them, a second and a quarter in all: the first refusals
    advise that, also where single items have come slowly before."""
    async with Batcher(Recorder(takes_s=0.02), max_size=2000, max_wait_ms=5) as batcher:
        if warm:
            for item in range(3):
                await batcher.submit(item)
                await asyncio.sleep(5)
        tasks = []
        for _ in range(4):
            tasks += [asyncio.create_task(batcher.submit(item)) for item in range(2100)]
            await asyncio.sleep(0.03)
        answers = await asyncio.gather(*tasks, return_exceptions=True)
    advice = {answer.retry_after_s for answer in answers if isinstance(answer, Rejected)}
    assert advice == {1, 2}
