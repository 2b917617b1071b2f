"""What a batcher does beside its requests: warm-up, a batch size that follows the latency, caches, late results."""

from __future__ import annotations

import asyncio
import threading
import weakref
from typing import Any

import pytest
from batch_functions import Recorder, double, outcomes
from virtual_time import on_virtual_time, settle

from headway import Batcher, BatchFunctionError, Expired, Refused, Rejected, SyncBatcher, TimedOut

LONG_MS = 60_000

# ---------------------------------------------------------------------- warm-up


@on_virtual_time
async def test_a_warm_up_is_one_item_and_then_a_full_batch() -> None:
    """The items go round to fill the batch; nothing is counted, and a request that comes meanwhile waits."""
    record = Recorder(takes_s=1.0)
    async with Batcher(record, max_batch_size=4, max_wait_ms=0) as batcher:
        warming = asyncio.create_task(batcher.warm_up([7, 8]))
        await settle()
        asked = asyncio.create_task(batcher.submit(1))
        await warming
        assert await asked == 2
        assert (batcher.stats()["total_requests"], outcomes(batcher)) == (1, {"completed": 1})
    assert record.batches == [[7], [7, 8, 7, 8], [1]]
    assert record.begun_s == pytest.approx([0.0, 1.0, 2.0])


async def test_a_warm_up_keeps_the_budget_of_tokens() -> None:
    """A batch that no requests could make may not fit into the memory; one item that is larger runs alone."""
    for budget, expected in ((10, [[4], [4, 4]]), (3, [[4], [4]])):
        record = Recorder()
        async with Batcher(record, max_batch_size=8, max_total_tokens=budget, count_tokens=int) as batcher:
            await batcher.warm_up([4])
        assert record.batches == expected


@on_virtual_time
async def test_a_warm_up_waits_for_the_batch_that_runs() -> None:
    """The function is never called twice at a time, also by two warm-ups."""
    record = Recorder(takes_s=1.0)
    async with Batcher(record, max_batch_size=2, max_wait_ms=0) as batcher, asyncio.TaskGroup() as group:
        group.create_task(batcher.submit(1))
        await settle()
        group.create_task(batcher.warm_up([7]))
        group.create_task(batcher.warm_up([8]))
    assert record.batches == [[1], [7], [7, 7], [8], [8, 8]]
    assert record.begun_s == pytest.approx([0.0, 1.0, 2.0, 3.0, 4.0])


@on_virtual_time
async def test_a_warm_up_that_fails_says_so_and_leaves_the_batcher_open() -> None:
    """The function's own error; requests are served after it. Without an item there is nothing to warm up with."""
    async with Batcher(Recorder(bad=[7]), max_wait_ms=0) as batcher:
        with pytest.raises(ValueError, match="7"):
            await batcher.warm_up([7])
        with pytest.raises(ValueError, match="needs an item"):
            await batcher.warm_up([])
        assert await batcher.submit(1) == 2
    with pytest.raises(Rejected):
        await batcher.warm_up([1])


def test_threads_warm_up_in_the_thread_of_the_function() -> None:
    """A plain function is called where its batches will run; before the start and after the end it is an error."""
    threads: list[str] = []

    def process(items: list[int]) -> list[int]:
        threads.append(threading.current_thread().name)
        return items

    batcher = SyncBatcher(Batcher(process, max_batch_size=2, max_wait_ms=0))
    inside = SyncBatcher(Batcher(lambda items: inside.warm_up(items) or items, max_wait_ms=0))
    with inside, pytest.raises(RuntimeError, match="cannot warm up"):
        inside.wait_for_result(inside.submit(1))
    with pytest.raises(RuntimeError, match="not running"):
        batcher.warm_up([1])
    with batcher:
        batcher.warm_up([1])
        batcher.wait_for_result(batcher.submit(2))
    assert (len(threads), len(set(threads))) == (3, 1)
    with pytest.raises(RuntimeError, match="not running"):
        batcher.warm_up([1])


# ---------------------------------------------------------------------- the batch size follows the latency


class Costly:
    """Takes ``item_s`` for each item of a batch."""

    def __init__(self) -> None:
        self.item_s = 0.01
        self.sizes: list[int] = []

    async def __call__(self, items: list[int]) -> list[int]:
        self.sizes.append(len(items))
        await asyncio.sleep(self.item_s * len(items))
        return items


@on_virtual_time
async def test_batches_become_smaller_while_they_take_too_long_and_grow_again() -> None:
    """At 10 ms an item 200 ms hold 20 of them and at 40 ms 5, whatever waits; a batch is never above the bound."""
    function = Costly()
    async with Batcher(function, max_batch_size=32, max_wait_ms=0, latency_ms=200) as batcher:

        async def serve(number: int) -> int:
            await asyncio.gather(*map(batcher.submit, range(number)))
            return batcher.stats()["batch_limit"]

        assert 14 <= await serve(2000) <= 20
        function.item_s = 0.04
        assert 3 <= await serve(1000) <= 5
        function.item_s = 0.01
        assert 14 <= await serve(4000) <= 20
        function.item_s = 0.001
        assert await serve(4000) == 32
    assert max(function.sizes) == 32


@on_virtual_time
async def test_without_a_latency_the_batch_size_stays() -> None:
    """However slow the function is."""
    function = Costly()
    function.item_s = 1.0
    async with Batcher(function, max_batch_size=4, max_wait_ms=0) as batcher:
        await asyncio.gather(*map(batcher.submit, range(100)))
    assert set(function.sizes[1:-1]) == {4}


@pytest.mark.parametrize("latency_ms", [0, -1, 60_001, "fast"])
def test_a_latency_that_makes_no_sense_is_an_error(latency_ms: Any) -> None:
    """In one line that names it."""
    with pytest.raises(ValueError, match=r"^latency_ms must be"):
        Batcher(Recorder(), latency_ms=latency_ms)


# ---------------------------------------------------------------------- too little memory


class Small:
    """Has memory for two items at once, and raises what it is given beyond that."""

    def __init__(self, error: type[Exception]) -> None:
        self.error = error
        self.sizes: list[int] = []

    def __call__(self, items: list[int]) -> list[int]:
        self.sizes.append(len(items))
        if len(items) > 2:
            raise self.error
        return [double(item) for item in items]


class OutOfMemoryError(RuntimeError):
    """Named as torch names its own."""


@pytest.mark.parametrize("error", [MemoryError, OutOfMemoryError])
async def test_a_batch_that_is_too_large_for_the_memory_is_tried_by_halves(error: type[Exception]) -> None:
    """The caches are cleared before that, in the function's thread, and not again soon after."""
    function, cleared = Small(error), list[str]()
    batcher = Batcher(
        function,
        max_batch_size=8,
        max_wait_ms=LONG_MS,
        clear_cache=lambda: cleared.append(threading.current_thread().name),
    )
    async with batcher:
        assert await asyncio.gather(*map(batcher.submit, range(8))) == [double(item) for item in range(8)]
        await asyncio.gather(*map(batcher.submit, range(8)))
        assert outcomes(batcher) == {"completed": 16}
    assert function.sizes == 2 * [8, 4, 2, 2, 4, 2, 2]
    assert [name.rpartition("_")[0] for name in cleared] == ["headway-batch"]


async def test_what_the_batch_held_is_free_when_the_caches_are_cleared() -> None:
    """The error keeps the frames of the function, and they its arrays."""
    held: list[weakref.ref[Small]] = []
    alive: list[bool] = []

    def process(items: list[int]) -> list[int]:
        array = Small(MemoryError)
        if not held:
            held.append(weakref.ref(array))
            raise MemoryError
        return items

    async with Batcher(process, max_wait_ms=0, clear_cache=lambda: alive.append(held[0]() is not None)) as batcher:
        with pytest.raises(MemoryError):
            await batcher.submit(1)
    assert alive == [False]


async def test_the_caches_are_cleared_again_after_a_time_and_a_failure_of_that_ends_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With ``clear_every_s`` 0 at each time."""
    calls: list[int] = []

    def clear() -> None:
        calls.append(1)
        raise OSError

    async with Batcher(
        Small(MemoryError), max_batch_size=3, max_wait_ms=LONG_MS, clear_cache=clear, clear_every_s=0
    ) as one:
        for _ in range(2):
            await asyncio.gather(*map(one.submit, range(3)))
        assert outcomes(one) == {"completed": 6}
    assert len(calls) == 2
    assert "clear_cache failed: OSError" in caplog.text


async def test_a_function_that_clears_nothing_unless_it_is_awaited_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """A lambda around an async function is not known as one before it is called."""

    async def later() -> None: ...

    async with Batcher(Small(MemoryError), max_batch_size=3, max_wait_ms=LONG_MS, clear_cache=lambda: later()) as one:
        await asyncio.gather(*map(one.submit, range(3)))
    assert "clear_cache must be a plain function, not one that must be awaited" in caplog.text


# ---------------------------------------------------------------------- an exception in the place of a result


@on_virtual_time
async def test_an_exception_in_the_place_of_a_result_is_the_failure_of_that_item(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The others keep their results, and nothing runs again: the function has said which one is wrong."""
    calls: list[list[int]] = []

    async def process(items: list[int]) -> list[int | BaseException]:
        calls.append(items)
        wrong: dict[int, BaseException] = {1: KeyError("one"), 2: StopIteration(), 3: asyncio.CancelledError()}
        return [wrong.get(item, double(item)) for item in items]

    async with Batcher(process) as batcher:
        answers = await asyncio.gather(*map(batcher.submit, range(5)), return_exceptions=True)
        assert outcomes(batcher) == {"completed": 2, "failed": 3}
    assert (answers[0], answers[4], calls) == (0, 8, [[0, 1, 2, 3, 4]])
    assert [type(answer) for answer in answers[1:4]] == [KeyError, BatchFunctionError, BatchFunctionError]
    assert "3 of a batch of 5 failed: 2 (priority-0, 1 tokens), " in caplog.text


# ---------------------------------------------------------------------- a result in the place of a time-out


@on_virtual_time
async def test_the_callers_result_takes_the_place_of_a_time_out() -> None:
    """Waiting or running: the outcome stays expired, and those results are counted."""
    errors: list[Refused] = []

    def later(item: int, error: Refused) -> int:
        errors.append(error)
        return -item

    async with Batcher(Recorder(takes_s=1.0), max_batch_size=1, max_wait_ms=0, on_timeout=later) as batcher:
        answers = await asyncio.gather(batcher.submit(1, timeout=0.5), batcher.submit(2, timeout=0.25))
        assert (*answers, batcher.stats()["degraded"]) == (-1, -2, 2)
        assert outcomes(batcher) == {"expired_queued": 1, "expired_running": 1}
    assert [type(error) for error in errors] == [Expired, TimedOut]


@on_virtual_time
async def test_only_a_time_out_has_another_result() -> None:
    """A refusal stays one, and an error of the caller's function is the error of its item."""

    def later(item: int, error: Refused) -> int:
        raise LookupError(item) if item == 1 else StopIteration

    async with Batcher(Recorder(takes_s=1.0), max_batch_size=1, max_size=1, max_wait_ms=0, on_timeout=later) as batcher:
        submitted = (batcher.submit(1, timeout=0.5), batcher.submit(2), batcher.submit(3), batcher.submit(4, timeout=0))
        answers = await asyncio.gather(*submitted, return_exceptions=True)
        assert [type(answer) for answer in answers] == [LookupError, int, Rejected, BatchFunctionError]
        assert batcher.stats()["degraded"] == 0
    with pytest.raises(TypeError, match="on_timeout must be a plain function"):
        Batcher(Recorder(), on_timeout=Recorder())  # type: ignore[arg-type]  # what is tested
