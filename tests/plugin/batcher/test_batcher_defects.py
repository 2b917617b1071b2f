"""Ten defects of well-known sample batchers, (a) to (j): none of them is in this one."""

from __future__ import annotations

import asyncio
import threading

import pytest
from batch_functions import Recorder, double
from virtual_time import on_virtual_time, settle

from headway import Batcher, Rejected, SyncBatcher, UnknownClassError


@on_virtual_time
async def test_a_the_window_opens_once_and_is_not_restarted() -> None:
    """(a) An arrival every 40 ms does not prolong a window of 50 ms: the first item is dispatched after 50 ms."""
    record = Recorder()
    async with Batcher(record, max_wait_ms=50) as batcher, asyncio.TaskGroup() as group:
        for item in range(4):
            group.create_task(batcher.submit(item))
            await asyncio.sleep(0.04)
    assert record.batches == [[0, 1], [2, 3]]
    assert record.begun_s == pytest.approx([0.05, 0.13])


@on_virtual_time
async def test_b_a_cancelled_future_does_not_break_its_batch() -> None:
    """(b) One member is cancelled while the batch runs: the others get their results, and the next batch too."""
    record = Recorder(takes_s=1.0)
    async with Batcher(record) as batcher:
        tasks = [asyncio.create_task(batcher.submit(item)) for item in range(3)]
        await asyncio.sleep(0.5)
        tasks[0].cancel()
        assert await asyncio.gather(*tasks[1:]) == [2, 4]
        assert tasks[0].cancelled()
        assert await batcher.submit(9) == 18


@on_virtual_time
async def test_c_the_batch_does_not_grow_with_the_load() -> None:
    """(c) However many wait and however slow the function, no batch is larger than was allowed."""
    record = Recorder(takes_s=10.0)
    async with Batcher(record, max_batch_size=4) as batcher:
        await asyncio.gather(*map(batcher.submit, range(50)))
    assert max(map(len, record.batches)) == 4


@on_virtual_time
async def test_d_the_larger_priority_is_dispatched_first() -> None:
    """(d) With more waiting than fit, the urgent ones are in the next batch and the rest of it is filled up."""
    record = Recorder(takes_s=1.0)
    async with Batcher(record, max_batch_size=3) as batcher, asyncio.TaskGroup() as group:
        for item, priority in [(1, 0), (2, 0), (3, 0), (10, 0), (11, 1), (12, 2), (13, 0), (14, 1)]:
            group.create_task(batcher.submit(item, priority))
    assert record.batches == [[1, 2, 3], [12, 11, 14], [10, 13]]


@on_virtual_time
async def test_d_no_queue_is_waited_for_while_another_is_full() -> None:
    """(d) A full batch of one priority is dispatched at once, though the queues of the others are empty."""
    record = Recorder()
    async with Batcher(record, max_batch_size=2, max_wait_ms=1000) as batcher:
        await asyncio.gather(batcher.submit(1, 1), batcher.submit(2, 1))
    assert record.begun_s == [0.0]


@pytest.mark.parametrize("priority", [-1, -3, 3])
@on_virtual_time
async def test_e_a_negative_priority_is_not_the_most_urgent(priority: int) -> None:
    """(e) A priority outside the range is refused in one line that names the range and the direction."""
    async with Batcher(Recorder()) as batcher:
        with pytest.raises(UnknownClassError, match=rf"0 to 2, not {priority}; larger is more urgent"):
            await batcher.submit(1, priority)
        assert batcher.stats()["total_requests"] == 0


@on_virtual_time
async def test_f_no_batch_exceeds_the_token_budget() -> None:
    """(f) The budget is checked with the next item counted in."""
    record = Recorder()
    async with Batcher(record, max_total_tokens=10, count_tokens=lambda item: item) as batcher:
        await asyncio.gather(*map(batcher.submit, [4, 4, 4, 9, 1, 2]))
    assert record.batches == [[4, 4], [4], [9, 1], [2]]


@on_virtual_time
async def test_f_one_item_above_the_budget_runs_alone() -> None:
    """(f) An item larger than the whole budget blocks no other: it is a batch of its own."""
    record = Recorder()
    async with Batcher(record, max_total_tokens=10) as batcher:
        sizes = {1: 3, 2: 25, 3: 3}
        await asyncio.gather(*(batcher.submit(item, tokens=tokens) for item, tokens in sizes.items()))
    assert record.batches == [[1], [2], [3]]


def test_g_a_function_that_raises_does_not_end_the_thread() -> None:
    """(g) After a failure the facade serves on."""
    with SyncBatcher(Batcher(Recorder(bad=[1]), max_wait_ms=0)) as batcher:
        with pytest.raises(ValueError, match="1"):
            batcher.wait_for_result(batcher.submit(1))
        assert batcher.wait_for_result(batcher.submit(2), float("inf")) == 4


def test_g_a_wait_that_times_out_says_so_and_withdraws_the_request() -> None:
    """(g) wait_for_result raises, and the item it was for never reaches the function."""
    release, seen = threading.Event(), list[int]()

    def process(items: list[int]) -> list[int]:
        seen.extend(items)
        release.wait()
        return items

    with SyncBatcher(Batcher(process, max_batch_size=1, max_wait_ms=0)) as batcher:
        first, second = batcher.submit(1), batcher.submit(2)
        with pytest.raises(TimeoutError, match="withdrawn"):
            batcher.wait_for_result(second, timeout=0)
        release.set()
        assert batcher.wait_for_result(first) == 1
    assert seen == [1]


def test_g_stop_finishes_what_is_there() -> None:
    """(g) Everything handed in before stop has its result after it."""
    batcher = SyncBatcher(Batcher(Recorder(), max_batch_size=4, max_wait_ms=60_000)).start()
    requests = [batcher.submit(item) for item in range(10)]
    batcher.stop()
    assert [request.result(timeout=0) for request in requests] == [double(item) for item in range(10)]


def test_g_stop_finishes_what_is_there_although_the_thread_begins_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """(g) The batcher's thread may begin to run after the call of stop, on a busy machine."""
    begins, run = threading.Event(), SyncBatcher._run

    def late(batcher: SyncBatcher[int, int], loop: asyncio.AbstractEventLoop) -> None:
        begins.wait(60)
        run(batcher, loop)

    monkeypatch.setattr(SyncBatcher, "_run", late)
    batcher = SyncBatcher(Batcher(Recorder(), max_batch_size=4, max_wait_ms=60_000)).start()
    requests = [batcher.submit(item) for item in range(10)]
    threading.Timer(0.2, begins.set).start()
    batcher.stop()
    assert [request.result(timeout=0) for request in requests] == [double(item) for item in range(10)]


@on_virtual_time
async def test_h_a_full_queue_evicts_for_a_more_urgent_arrival() -> None:
    """(h) The newest of the least urgent is evicted; an arrival no more urgent than all is refused."""
    record = Recorder(takes_s=1.0)
    async with Batcher(record, max_batch_size=1, max_size=2) as batcher:
        running, kept, newest = (asyncio.create_task(batcher.submit(item)) for item in (1, 2, 3))
        await settle()
        with pytest.raises(Rejected, match=r"\(queue_full\)"):
            await batcher.submit(4)
        urgent = asyncio.create_task(batcher.submit(5, priority=2))
        with pytest.raises(Rejected, match="evicted"):
            await newest
        assert await asyncio.gather(running, kept, urgent) == [2, 4, 10]
        assert batcher.stats()["dropped"] == 2
    assert record.batches == [[1], [5], [2]]


@on_virtual_time
async def test_i_urgent_work_without_end_does_not_starve_the_rest() -> None:
    """(i) Ten urgent items wait at any time: the one of the lowest priority is dispatched within a round, ten items."""
    record = Recorder(takes_s=1.0)
    async with Batcher(record, max_batch_size=1) as batcher:

        async def press(item: int) -> None:
            for _ in range(5):
                await batcher.submit(item, priority=2)

        async with asyncio.TaskGroup() as group:
            for item in range(1, 11):
                group.create_task(press(item))
            await settle()
            group.create_task(batcher.submit(100))
    assert record.batches.index([100]) <= 10


@on_virtual_time
async def test_j_there_is_one_direction_larger_is_more_urgent() -> None:
    """(j) Eviction and dispatch follow the same direction of priority."""
    record = Recorder(takes_s=1.0)
    async with Batcher(record, max_batch_size=1, max_size=3) as batcher:
        requests = [asyncio.create_task(batcher.submit(item, item % 3)) for item in (9, 0, 1, 2)]
        await settle()
        requests.append(asyncio.create_task(batcher.submit(11, 2)))
        answers = await asyncio.gather(*requests, return_exceptions=True)
    assert isinstance(answers[1], Rejected)
    assert record.batches == [[9], [2], [11], [1]]
