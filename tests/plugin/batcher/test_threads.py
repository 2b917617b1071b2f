"""The facade for threads, on real threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from batch_functions import Recorder, double

from headway import Batcher, Expired, Rejected, SyncBatcher, UnknownClassError


@pytest.mark.parametrize("wrong", [len, 5, None, Batcher])
def test_a_sync_batcher_takes_a_batcher(wrong: Any) -> None:
    """The function that belongs into the Batcher is refused where it is given, and the message shows the right call."""
    with pytest.raises(TypeError, match=r"as in SyncBatcher\(Batcher\(process_batch\)\), not"):
        SyncBatcher(wrong)


def test_many_threads_each_get_their_own_results() -> None:
    """Eight threads hand in 200 items each, one at a time, and every result is right."""

    def work(first: int) -> bool:
        items = range(first, first + 200)
        return all(batcher.wait_for_result(batcher.submit(item, item % 3)) == double(item) for item in items)

    with SyncBatcher(Batcher(Recorder(), max_batch_size=8, max_wait_ms=0)) as batcher, ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(0, 1600, 200)))
        stats = batcher.get_stats()
    assert (stats["total_requests"], stats["outcomes"]["completed"]) == (1600, 1600)


def test_items_of_several_threads_share_a_batch() -> None:
    """Four threads wait for one another's items: only a batch of four sets them free."""
    record = Recorder()
    with SyncBatcher(Batcher(record, max_batch_size=4, max_wait_ms=60_000)) as batcher, ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda item: batcher.wait_for_result(batcher.submit(item)), range(4)))
    assert answers == [0, 2, 4, 6]
    assert [sorted(batch) for batch in record.batches] == [[0, 1, 2, 3]]


def test_errors_come_with_the_result() -> None:
    """The function's own error, a refusal and a wrong priority all reach the waiting caller."""
    with SyncBatcher(Batcher(Recorder(bad=[1]), max_wait_ms=0)) as batcher:
        for request, error in [
            (batcher.submit(1), ValueError),
            (batcher.submit(2, timeout=0), Expired),
            (batcher.submit(3, priority=-1), UnknownClassError),
        ]:
            with pytest.raises(error):
                batcher.wait_for_result(request)


def test_a_time_out_of_the_function_is_not_that_of_the_wait() -> None:
    """A TimeoutError that the function raised comes through as it is."""

    def process(items: list[int]) -> list[int]:
        raise TimeoutError("the model's own")

    with (
        SyncBatcher(Batcher(process, max_wait_ms=0)) as batcher,
        pytest.raises(TimeoutError, match="the model's own"),
    ):
        batcher.wait_for_result(batcher.submit(1))


def test_stop_waits_for_a_call_that_runs() -> None:
    """Stopped from another thread while the function runs: its item gets its result, and the thread ends."""
    begun, release = threading.Event(), threading.Event()

    def process(items: list[int]) -> list[int]:
        begun.set()
        release.wait()
        return items

    batcher = SyncBatcher(Batcher(process, max_wait_ms=0)).start()
    request = batcher.submit(1)
    begun.wait()
    stopping = threading.Thread(target=batcher.stop)
    stopping.start()
    assert not request.done()
    release.set()
    stopping.join()
    assert request.result(timeout=0) == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "headway-batcher"]


def test_a_stopped_batcher_refuses_and_stays_stopped() -> None:
    """Rejected, not a hang; a second stop does nothing, a second start is an error."""
    batcher = SyncBatcher(Batcher(Recorder())).start()
    batcher.stop()
    batcher.stop()
    with pytest.raises(Rejected, match="draining"):
        batcher.submit(1)
    with pytest.raises(RuntimeError, match="once"):
        batcher.start()
    assert batcher.get_stats()["total_requests"] == 0


def test_a_batcher_that_was_not_started_says_so() -> None:
    """RuntimeError, not a hang; to stop it is allowed."""
    batcher = SyncBatcher(Batcher(Recorder()))
    with pytest.raises(RuntimeError, match="not started"):
        batcher.submit(1)
    batcher.stop()


def test_submits_that_race_with_stop_all_end() -> None:
    """Eight threads submit items while another stops: each item is served or Rejected, none hangs."""
    batcher = SyncBatcher(Batcher(Recorder(), max_batch_size=4, max_wait_ms=0)).start()
    ready = threading.Barrier(9)

    def work(first: int) -> int:
        ready.wait()
        served = 0
        for item in range(first, first + 100):
            try:
                request = batcher.submit(item)
            except Rejected:
                break
            assert request.result(timeout=30) == double(item)
            served += 1
        return served

    with ThreadPoolExecutor(8) as pool:
        served = [pool.submit(work, first) for first in range(0, 800, 100)]
        ready.wait()
        batcher.stop()
        assert sum(future.result() for future in served) == batcher.get_stats()["outcomes"]["completed"]


def test_a_batch_function_cannot_stop_its_own_batcher() -> None:
    """The function would wait for itself for ever: it gets an error, and everything goes on."""

    def process(items: list[int]) -> list[int]:
        batcher.stop()
        return items

    with SyncBatcher(Batcher(process, max_wait_ms=0)) as batcher:
        request = batcher.submit(1)
        with pytest.raises(RuntimeError, match="cannot stop the batcher it runs in"):
            batcher.wait_for_result(request)
