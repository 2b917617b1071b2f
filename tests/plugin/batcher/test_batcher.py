"""The batcher in virtual time: when a batch is dispatched, which requests are in it, and how each request ends."""

from __future__ import annotations

import asyncio
import gc
import math
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from batch_functions import Recorder, double, settle
from pydantic import TypeAdapter
from virtual_time import on_virtual_time

import headway
from headway import Batcher, BatcherStats, BatchFunctionError, Expired, Rejected, SyncBatcher, TimedOut
from headway.batcher.queue import QueueStats
from headway_policies import Degrade, Outcome, Requeue


def now_s() -> float:
    return asyncio.get_running_loop().time()


def outcomes(batcher: Batcher[Any, Any]) -> dict[str, int]:
    return {outcome: number for outcome, number in batcher.stats()["outcomes"].items() if number}


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


# ---------------------------------------------------------------------- how a request fails


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


# ---------------------------------------------------------------------- what it is given


async def test_a_plain_function_runs_in_one_thread_of_its_own() -> None:
    """It blocks no loop, and a model that must always be called from the same thread is."""
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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_batch_size": 0}, "max_batch_size must be 1 to 65536, not 0"),
        ({"max_wait_ms": -1}, "max_wait_ms must be 0 to 60000, not -1"),
        ({"max_total_tokens": 0}, "max_total_tokens must be 1 to"),
        ({"priority_classes": 9}, "priority_classes must be 1 to 8, not 9"),
        ({"max_size": 31}, "31 cannot hold a batch of 32"),
        ({"max_batch_size": 2.5}, "max_batch_size must be a whole number, not 2.5"),
        ({"max_total_tokens": None}, "max_total_tokens must be a whole number, not None"),
        ({"max_wait_ms": "8"}, "max_wait_ms must be a number, not '8'"),
        ({"max_wait_ms": math.inf}, "max_wait_ms must be 0 to 60000, not inf"),
    ],
    ids=str,
)
def test_a_setting_out_of_range_is_refused_by_name(settings: dict[str, Any], message: str) -> None:
    """ValueError, one line."""
    with pytest.raises(ValueError, match=message):
        Batcher(Recorder(), **settings)


@on_virtual_time
async def test_an_item_whose_size_cannot_be_computed_is_refused_alone() -> None:
    """What ``count_tokens`` raises reaches the submitter of that item, before it is in any batch."""
    record = Recorder()
    async with Batcher(record, count_tokens=lambda item: 10 // item) as batcher:
        answers = await asyncio.gather(*map(batcher.submit, range(3)), return_exceptions=True)
    assert isinstance(answers[0], ZeroDivisionError)
    assert (answers[1:], record.batches) == ([2, 4], [[1, 2]])


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"priority": 1.0}, "priority must be a whole number, not 1.0; larger is more urgent"),
        ({"priority": True}, "priority must be a whole number, not True"),
        ({"priority": None}, "priority must be a whole number, not None"),
        ({"timeout": "1"}, "timeout must be a number, not '1'"),
        ({"timeout": math.nan}, "timeout must be a number, not nan"),
        ({"timeout": 10**400}, "timeout must be a number, not 1000"),
        ({"tokens": 2.5}, "tokens must be a whole number, not 2.5"),
        ({"tokens": -1}, "tokens must be 0 to 9007199254740992, not -1"),
        ({"tokens": 10**400}, "tokens must be 0 to 9007199254740992, not 1000"),
        ({"tokens": 10**5000}, "tokens must be 0 to 9007199254740992, not this int"),
    ],
    ids=range(10),
)
@on_virtual_time
async def test_invalid_terms_are_refused_alone_and_leave_no_state(terms: dict[str, Any], message: str) -> None:
    """One line that names them, before the request is recorded: later requests are served, and drain ends."""
    async with Batcher(Recorder(), max_batch_size=2) as batcher:
        with pytest.raises(ValueError, match=re.escape(message)):
            await batcher.submit(1, **terms)
        assert await asyncio.gather(*(batcher.submit(item, item % 3) for item in range(6))) == [0, 2, 4, 6, 8, 10]
    assert outcomes(batcher) == {"completed": 6}
    assert batcher.stats()["total_queued"] == 0


@pytest.mark.parametrize("size", [math.inf, math.nan, None, 2.5, 10**400], ids=["inf", "nan", "None", "2.5", "huge"])
@on_virtual_time
async def test_a_size_that_is_none_is_refused_alone(size: Any) -> None:
    """Whatever ``count_tokens`` returns: one invalid value must not affect the records of other requests."""
    record = Recorder(takes_s=1.0)
    async with Batcher(record, max_batch_size=1, max_wait_ms=0, count_tokens=lambda item: item or size) as batcher:
        with pytest.raises(ValueError, match="tokens must be"):
            await batcher.submit(0, priority=2)
        assert await asyncio.gather(*(batcher.submit(1, priority) for priority in (0, 2, 2))) == [2, 2, 2]


@pytest.mark.parametrize("takes_numpy", [True, False], ids=["numpy", "bool"])
@on_virtual_time
async def test_whatever_is_an_index_is_a_whole_number(takes_numpy: bool) -> None:
    """Numbers of other libraries serve; truth does not."""
    numpy = pytest.importorskip("numpy")
    async with Batcher(Recorder()) as batcher:
        if takes_numpy:
            assert await batcher.submit(1, numpy.int64(2), numpy.float32(3.0), numpy.int32(4)) == 2
        else:
            with pytest.raises(ValueError, match="tokens must be a whole number"):
                await batcher.submit(1, tokens=True)


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"process_batch": 3}, "process_batch must be a function, not int"),
        ({"process_batch": None}, "process_batch must be a function, not NoneType"),
        ({"validate": "x"}, "validate must be a function, not str"),
        ({"validate": settle}, "validate must be a plain function"),
        ({"count_tokens": settle}, "count_tokens must be a plain function"),
    ],
    ids=["a number", "nothing", "a text", "an async validate", "an async count_tokens"],
)
def test_what_cannot_be_called_is_refused_at_once(functions: dict[str, Any], message: str) -> None:
    """And not by the first request."""
    with pytest.raises(TypeError, match=message):
        Batcher(**{"process_batch": Recorder(), **functions})


# ---------------------------------------------------------------------- functions with ways of their own


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


def test_a_second_event_loop_is_refused() -> None:
    """A batcher belongs to the loop of its first request; the error names what serves threads."""
    batcher = Batcher(Recorder(), max_wait_ms=0)
    assert asyncio.run(batcher.submit(1)) == 2
    with pytest.raises(RuntimeError, match="SyncBatcher"):
        asyncio.run(batcher.submit(2))


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


@pytest.mark.parametrize(
    ("effect", "error"),
    [(Requeue(1), "never does"), (Degrade(1, 8), "has none"), (object(), "unreachable")],
    ids=["requeue", "degrade", "unknown"],
)
@on_virtual_time
async def test_an_effect_that_cannot_follow_is_an_error(effect: object, error: str) -> None:
    """No effect of the desk is silently ignored: the error names the effect that this shell does not support."""
    async with Batcher(Recorder()) as batcher:
        with pytest.raises(AssertionError, match=error):
            batcher._carry_out([effect])  # type: ignore[list-item]  # one of them is no effect at all


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
    advice = {one.retry_after_s for one in answers if isinstance(one, Rejected)}
    assert advice == {1, 2}


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
