"""The order of the most urgent first, alone: bounded, first come first served inside one priority, safe for threads."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headway


def test_the_most_urgent_first_and_inside_one_in_order_of_arrival() -> None:
    """A larger number is more urgent, whatever came first."""
    queue: headway.PriorityRequestQueue[str] = headway.PriorityRequestQueue()
    for number, priority in enumerate([0, 2, 1, 2, 0]):
        assert queue.enqueue(f"{priority}-{number}", priority)
    assert queue.dequeue_batch(3) == ["2-1", "2-3", "1-2"]
    assert queue.dequeue() == "0-0"
    assert queue.dequeue_batch(10) == ["0-4"]
    assert queue.dequeue() is None
    assert queue.dequeue_batch(4) == []
    assert queue.dequeue_batch(-1) == []


def test_a_full_queue_gives_way_to_the_more_urgent_only() -> None:
    """The newest of the least urgent goes; an equal or lesser one finds no room; both count as dropped."""
    queue: headway.PriorityRequestQueue[str] = headway.PriorityRequestQueue(max_size=2)
    assert queue.enqueue("first", 0)
    assert queue.enqueue("second", 0)
    assert not queue.enqueue("third", 0)
    assert queue.enqueue("urgent", 2)
    assert queue.enqueue("more", 1)
    assert not queue.enqueue("late", 1)
    assert queue.dequeue_batch(2) == ["urgent", "more"]
    assert queue.stats() == {
        "queue_size": 0, "total_queued": 0, "max_size": 2, "queue_sizes": [0, 0, 0],
        "enqueued": 4, "dequeued": 2, "dropped": 4,
    }  # fmt: skip


@pytest.mark.parametrize(("default", "expected"), [(None, [0, 2, 1]), ("batch", [1, 1, 1]), (2, [0, 1, 2])])
def test_a_request_without_a_priority_is_of_the_default_class(default: int | str | None, expected: list[int]) -> None:
    """Normal where none is named; a request that brings its own priority keeps it."""
    queue: headway.PriorityRequestQueue[str] = headway.PriorityRequestQueue(default_class=default)
    queue.enqueue("plain")
    queue.enqueue(headway.PrioritizedRequest("own", "realtime"))
    queue.enqueue(headway.PrioritizedRequest("given", "realtime"), "normal")
    assert queue.stats()["queue_sizes"] == expected
    assert sorted(queue.dequeue_batch(3)) == ["given", "own", "plain"]


@pytest.mark.parametrize(("count", "priority"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)])
def test_without_a_default_class_it_is_the_middle_one(count: int, priority: int) -> None:
    """Of two, normal and high, it is normal."""
    queue: headway.PriorityRequestQueue[str] = headway.PriorityRequestQueue(priority_classes=count)
    queue.enqueue("plain")
    assert queue.stats()["queue_sizes"].index(1) == priority


@pytest.mark.parametrize("priority", [-1, 3])
def test_a_priority_that_does_not_exist_is_an_error(priority: int) -> None:
    """The priority is neither clamped nor wrapped around."""
    queue: headway.PriorityRequestQueue[str] = headway.PriorityRequestQueue()
    with pytest.raises(headway.UnknownClassError, match="0 to 2"):
        queue.enqueue("x", priority)
    assert (len(queue), queue.dropped) == (0, 0)


@pytest.mark.parametrize("size", [0, 1_000_001])
def test_a_size_that_makes_no_sense_is_an_error(size: int) -> None:
    """With the bounds in the text."""
    with pytest.raises(ValueError, match="max_size must be 1 to 1000000"):
        headway.PriorityRequestQueue(max_size=size)


@given(st.lists(st.one_of(st.integers(0, 2), st.just("out")), max_size=60), st.integers(1, 6))
def test_any_history_agrees_with_a_sorted_list(history: list[int | str], max_size: int) -> None:
    """The same as sorting by urgency and arrival, and pushing out the last."""
    queue: headway.PriorityRequestQueue[int] = headway.PriorityRequestQueue(max_size=max_size)
    waiting: list[tuple[int, int]] = []
    for number, event in enumerate(history):
        if isinstance(event, int):
            room = len(waiting) < max_size or waiting[-1][0] > -event
            assert queue.enqueue(number, event) is room
            waiting = sorted([*waiting, (-event, number)])[:max_size] if room else waiting
        else:
            assert queue.dequeue() == (waiting.pop(0)[1] if waiting else None)
        assert queue.size == len(waiting) == sum(queue.stats()["queue_sizes"])


def test_threads_lose_nothing_and_take_nothing_twice() -> None:
    """Four put in and four take out at the same time."""
    queue: headway.PriorityRequestQueue[int] = headway.PriorityRequestQueue(max_size=100_000)
    taken: Counter[int] = Counter()
    lock = threading.Lock()
    done = threading.Event()

    def put(start: int) -> None:
        for number in range(start, start + 500):
            queue.enqueue(number, number % 3)

    def take() -> None:
        while not (done.is_set() and not queue.size):
            batch = queue.dequeue_batch(7)
            with lock:
                taken.update(batch)

    putting = [threading.Thread(target=put, args=[start]) for start in range(0, 2000, 500)]
    taking = [threading.Thread(target=take) for _ in range(4)]
    for thread in [*putting, *taking]:
        thread.start()
    for thread in putting:
        thread.join()
    done.set()
    for thread in taking:
        thread.join()
    assert taken == Counter(range(2000))
    assert queue.stats()["dequeued"] == 2000


@pytest.mark.parametrize("priority", [1.5, True, "1"])
def test_a_priority_that_is_no_number_changes_nothing(priority: Any) -> None:
    """One line, and the figures as they were."""
    queue: headway.PriorityRequestQueue[str] = headway.PriorityRequestQueue()
    queue.enqueue("a")
    with pytest.raises(headway.UnknownClassError, match="priority must be a whole number"):
        queue.enqueue("b", priority)
    with pytest.raises(TypeError):
        queue.dequeue_batch(1.5)  # type: ignore[arg-type]  # what is tested
    assert queue.stats() == {**queue.stats(), "queue_size": 1, "enqueued": 1, "dequeued": 0}
    with pytest.raises(ValueError, match="priority_classes must be 1 to 8, not 0"):
        headway.PriorityRequestQueue(priority_classes=0)
