"""What a batch function may be, give and raise: a fault of it ends no other request."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from batch_functions import Recorder, double, outcomes
from virtual_time import on_virtual_time

import headway
from headway import Batcher, BatchFunctionError, SyncBatcher


@on_virtual_time
async def test_one_bad_item_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    """The members of a failed batch run singly: one gets its own exception, the others their results."""
    record = Recorder(bad=[2])
    async with Batcher(record) as batcher:
        answers = await asyncio.gather(*map(batcher.submit, range(4)), return_exceptions=True)
        assert answers[:2] + answers[3:] == [0, 2, 6]
        assert repr(answers[2]) == "ValueError(2)"
        assert outcomes(batcher) == {"completed": 3, "failed": 1}
    assert record.batches == [[0, 1, 2, 3], [0], [1], [2], [3]]
    assert "a batch of 4 failed" in caplog.text


@on_virtual_time
async def test_an_item_that_is_not_valid_gets_into_no_batch() -> None:
    """Its submitter has the validator's own exception at once; it takes no place and is counted nowhere."""
    record = Recorder()

    def validate(item: int) -> None:
        if item < 0:
            raise ValueError(f"{item} is below 0")

    async with Batcher(record, max_batch_size=2, validate=validate) as batcher:
        answers = await asyncio.gather(*map(batcher.submit, [1, -5, 2]), return_exceptions=True)
    assert record.batches == [[1, 2]]
    assert answers[::2] == [double(1), double(2)]
    assert (type(answers[1]), str(answers[1])) == (ValueError, "-5 is below 0")
    assert outcomes(batcher) == {"completed": 2}


@on_virtual_time
async def test_a_batch_of_one_that_fails_is_not_run_again() -> None:
    """There is no other item to separate it from."""
    record = Recorder(bad=[1])
    async with Batcher(record) as batcher:
        with pytest.raises(ValueError, match="1"):
            await batcher.submit(1)
    assert record.batches == [[1]]


class Frame:
    """A table of two columns: its length is its rows, what it gives one after the other its columns."""

    columns = ("label", "score")

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


class Torn(list[int]):
    """A list that breaks off."""

    def __iter__(self) -> Iterator[int]:
        yield self[0]
        raise OSError("torn")


class Uneven(list[int]):
    """A list that gives more than its length."""

    def __iter__(self) -> Iterator[int]:
        yield from (1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize(
    "results",
    [
        pytest.param(lambda items: None, id="nothing"),
        pytest.param(lambda items: (item for item in items), id="a generator"),
        pytest.param(lambda items: {item: item for item in items}, id="a dict"),
        pytest.param(set, id="a set"),
        pytest.param(lambda items: "x" * len(items), id="text"),
        pytest.param(lambda items: [*items, 0], id="one too many"),
        pytest.param(lambda items: items[1:], id="one too few"),
        pytest.param(lambda items: Frame(), id="a table"),
        pytest.param(Torn, id="torn"),
        pytest.param(Uneven, id="uneven"),
    ],
)
@on_virtual_time
async def test_what_is_no_list_of_results_is_refused(results: Callable[[list[int]], Any]) -> None:
    """Whatever the function returns in place of a list with one result for each item is a BatchFunctionError."""
    async with Batcher(results) as batcher:
        answers = await asyncio.gather(*map(batcher.submit, range(2)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [BatchFunctionError] * 2
    assert outcomes(batcher) == {"failed": 2}


@pytest.mark.parametrize("error", [StopIteration(), asyncio.CancelledError()], ids=repr)
@pytest.mark.parametrize("on_the_loop", [True, False], ids=["coroutine", "plain"])
@on_virtual_time
async def test_an_exception_that_no_future_carries_still_reaches_the_submitter(
    error: BaseException, on_the_loop: bool
) -> None:
    """A function that raises StopIteration or CancelledError fails its item, and the batcher goes on."""
    raised = list[BaseException]([error])

    def process(items: list[int]) -> list[int]:
        if raised:
            raise raised.pop()
        return items

    async def process_on_the_loop(items: list[int]) -> list[int]:
        return process(items)

    async with Batcher(process_on_the_loop if on_the_loop else process, max_wait_ms=0) as batcher:
        with pytest.raises((BatchFunctionError, RuntimeError)):
            await batcher.submit(1)
        assert await batcher.submit(2) == 2


async def test_a_plain_function_runs_in_one_thread_of_its_own() -> None:
    """The function blocks no loop, and a model that must always be called from the same thread is."""
    threads = list[threading.Thread]()

    def process(items: list[int]) -> list[int]:
        threads.append(threading.current_thread())
        return [double(item) for item in items]

    async with Batcher(process, max_batch_size=1) as batcher:
        assert await asyncio.gather(*map(batcher.submit, range(3))) == [0, 2, 4]
    assert len(threads) == 3
    assert len(set(threads)) == 1
    assert threading.main_thread() not in threads


@pytest.mark.parametrize("end", [Batcher.drain, Batcher.close], ids=["drain", "close"])
async def test_the_thread_of_a_plain_function_ends_with_the_batcher(end: Callable[[Batcher[int, int]], Any]) -> None:
    """Once the batcher is drained or closed its thread ends, though the batcher is still referenced."""
    threads = list[threading.Thread]()

    def process(items: list[int]) -> list[int]:
        threads.append(threading.current_thread())
        return items

    batcher = Batcher(process, max_wait_ms=0)
    await batcher.submit(1)
    await end(batcher)
    await asyncio.to_thread(threads[0].join, 10)
    assert not threads[0].is_alive()


@on_virtual_time
async def test_a_plain_function_may_hand_out_a_coroutine() -> None:
    """A lambda around a coroutine function works like the function."""
    record = Recorder()
    async with Batcher(lambda items: record(items)) as batcher:
        assert await batcher.submit(4) == 8


def consuming(items: list[int]) -> list[int]:
    """Right, and uses its list up."""
    return [double(items.pop(0)) for _ in range(len(items))]


def shrinking(items: list[int]) -> list[int]:
    """Wrong: it loses an item of a larger batch, and its list with it."""
    if len(items) > 1:
        items.pop()
    return [double(item) for item in items]


@pytest.mark.parametrize("function", [consuming, shrinking])
@on_virtual_time
async def test_a_function_may_use_its_list_up(function: Callable[[list[int]], list[int]]) -> None:
    """The count that matters is the one before the call; an item that is lost is called singly."""
    async with Batcher(function, max_batch_size=3) as batcher:
        assert await asyncio.gather(*map(batcher.submit, range(3))) == [0, 2, 4]
    assert outcomes(batcher) == {"completed": 3}


class Severe(BaseException):
    """Neither an exit nor an exception."""


@pytest.mark.parametrize("on_loop", [True, False], ids=["async", "plain"])
@pytest.mark.parametrize("error", [SystemExit("no"), Severe()], ids=["exit", "severe"])
@on_virtual_time
async def test_what_would_end_a_program_fails_one_item(error: BaseException, on_loop: bool) -> None:
    """sys.exit for one item of three: that one fails, with the reason, and the loop continues."""

    def plain(items: list[int]) -> list[int]:
        if 1 in items:
            raise error
        return [double(item) for item in items]

    async def on_the_loop(items: list[int]) -> list[int]:
        return plain(items)

    async with Batcher(on_the_loop if on_loop else plain, max_batch_size=3) as batcher:
        answers = await asyncio.gather(*map(batcher.submit, range(3)), return_exceptions=True)
    assert (answers[0], answers[2]) == (0, 4)
    assert isinstance(answers[1], BatchFunctionError)
    assert type(error).__name__ in str(answers[1])
    assert outcomes(batcher) == {"completed": 2, "failed": 1}


async def _async(*_: object) -> list[int]:
    return [1]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: Batcher(_async, count_tokens=_async), id="a coroutine function counts tokens"),
        pytest.param(lambda: Batcher(_async, validate=_async), id="a coroutine function validates"),
        pytest.param(lambda: Batcher(_async()), id="a coroutine as the function"),
        pytest.param(lambda: Batcher(_async, count_tokens=_async()), id="a coroutine counts tokens"),
        pytest.param(lambda: Batcher(_async, validate=_async()), id="a coroutine validates"),
        pytest.param(lambda: SyncBatcher(_async), id="a function for threads"),
        pytest.param(lambda: SyncBatcher(_async()), id="a coroutine for threads"),
        pytest.param(lambda: headway.wrap(_async()), id="a coroutine as an engine"),
    ],
)
def test_wrong_arguments_leave_no_coroutine_behind(make: Callable[[], object]) -> None:
    """Each is one TypeError; a coroutine in the wrong place is closed, for it would warn that it was never awaited."""
    with pytest.raises(TypeError) as raised:
        make()
    assert "\n" not in str(raised.value)
    gc.collect()  # the warning comes when it is destroyed; here warnings are errors


@pytest.mark.parametrize("argument", ["count_tokens", "validate"])
@on_virtual_time
async def test_a_function_that_hands_out_a_coroutine_is_refused_and_leaves_none(argument: str) -> None:
    """A lambda around a coroutine function is seen at its first call only: a TypeError that names the argument."""
    async with Batcher(Recorder(), **{argument: lambda item: _async(item)}) as batcher:
        with pytest.raises(TypeError, match=f"{argument} must be a plain function"):
            await batcher.submit(1)
        assert outcomes(batcher) == {}
    gc.collect()


@on_virtual_time
async def test_a_call_that_is_cancelled_before_its_first_step_leaves_no_coroutine() -> None:
    """The only submitter goes away in the very turn of the loop in which the function was called."""
    called = asyncio.Event()

    async def process(items: list[int]) -> list[int]:
        return items

    def call(items: list[int]) -> Any:
        task.cancel()
        called.set()
        return process(items)

    batcher = Batcher(_OnLoop(call), max_wait_ms=0)
    task = asyncio.create_task(batcher.submit(1))
    await called.wait()
    await asyncio.wait([task])
    await batcher.drain()
    assert task.cancelled()
    gc.collect()


class _OnLoop:
    """A batch function that counts as a coroutine function, though what it calls only makes a coroutine."""

    def __init__(self, call: Callable[[list[int]], Any]) -> None:
        self._call = call
        self.__call__: Any = self.run  # what is_async looks at

    async def run(self, items: list[int]) -> Any:
        raise AssertionError("only its kind is looked at")

    def __call__(self, items: list[int]) -> Any:  # type: ignore[no-redef]  # the instance's hides it from is_async
        return self._call(items)
