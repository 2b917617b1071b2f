"""Python's collector does not stop the loop, its pauses are counted, and all of it can be undone."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator

import pytest

from headway.supervision.memory.gc_control import GcControl
from headway.supervision.memory.gc_pauses import BUCKETS_S, GcPauses

OLDEST = 2


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """No test finds frozen objects, or leaves the collector of the process changed."""
    gc.unfreeze()
    before = (gc.get_threshold(), list(gc.callbacks), gc.isenabled())
    yield
    gc.unfreeze()
    gc.freeze()  # as tests/conftest.py has it
    assert (gc.get_threshold(), gc.callbacks, gc.isenabled()) == before


class Node:
    """Something that refers to itself, so that only a collection can find it."""

    def __init__(self) -> None:
        self.itself = self


async def churn(chunks: int) -> float:
    """Make objects that live for a while, in short turns of the loop; returns its longest turn, in seconds of CPU."""
    kept: list[list[list[int]]] = []
    longest_s, last_s = 0.0, time.thread_time()
    for _ in range(chunks):
        kept.append([[number] for number in range(2000)])
        await asyncio.sleep(0)
        now_s = time.thread_time()
        longest_s, last_s = max(longest_s, now_s - last_s), now_s
    return longest_s


@pytest.mark.slow
async def test_the_loop_is_not_held_up_while_a_million_objects_live() -> None:
    """The longest turn of the loop under churn is less than half of what it is with Python's own timing."""
    live = [[number] for number in range(1_000_000)]
    gc.collect()
    default_s = await churn(400)
    with GcControl() as collector:
        ours_s = await churn(400)
        assert collector.pauses.read()[OLDEST].count == 1  # its own, at the start
    assert len(live) == 1_000_000
    assert ours_s < 0.5 * default_s


def test_everything_is_as_before_when_it_stops() -> None:
    """Thresholds, callbacks and the frozen heap; starting or stopping twice changes nothing."""
    before = gc.get_threshold()
    collector = GcControl()
    collector.start()
    collector.start()
    assert gc.get_threshold()[:2] == before[:2]
    assert gc.get_threshold()[OLDEST] > 10**6
    assert gc.get_freeze_count() > 0
    collector.stop()
    collector.stop()
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)
    assert not collector.update(idle=True)


def test_objects_frozen_by_others_stay_frozen() -> None:
    """vLLM freezes its heap as well."""
    gc.freeze()
    with GcControl():
        pass
    assert gc.get_freeze_count() > 0


def test_old_garbage_is_found_when_nothing_runs_or_much_has_piled_up() -> None:
    """Not by itself, not at once, but at the next check that is due."""
    now_s = [0.0]
    with GcControl(now_s=lambda: now_s[0]) as collector:
        nodes = [Node() for _ in range(10)]
        gc.collect(1)  # they have grown old
        alive = sum(isinstance(found, Node) for found in gc.get_objects(OLDEST))
        assert alive == len(nodes) == 10
        nodes.clear()
        assert not collector.update(idle=False)
        assert not collector.update(idle=True)
        now_s[0] = 11.0
        assert not collector.update(idle=False)
        assert collector.update(idle=True)
        assert sum(isinstance(found, Node) for found in gc.get_objects(OLDEST)) == 0
        for _ in range(30):
            gc.collect(1)
        now_s[0] = 12.0
        assert collector.update(idle=False)


def test_garbage_that_was_frozen_is_found_by_tidying() -> None:
    """A check never visits it, a tidy does, and freezes what remains."""
    nodes = [Node() for _ in range(10)]
    with GcControl() as collector:
        nodes.clear()
        gc.collect()
        frozen = gc.get_freeze_count()
        collector.tidy()
        assert 0 < gc.get_freeze_count() != frozen
        gc.unfreeze()
        assert not any(type(found) is Node for found in gc.get_objects())


def test_pauses_are_counted_by_generation_and_length() -> None:
    """By the collector's own callback, on the clock given."""
    ticks = iter([0.0, 0.0001, 1.0, 1.003, 2.0, 12.0, 13.0])
    pauses = GcPauses(clock_s=lambda: next(ticks))
    gc.disable()
    try:
        pauses.watch()
        pauses.watch()
        gc.collect(0)
        gc.collect(2)
        gc.collect(2)
        pauses.unwatch()
        gc.collect(2)
    finally:
        gc.enable()
    young, _, old = pauses.read()
    assert young.buckets == [*((str(bound), 1.0) for bound in BUCKETS_S), ("+Inf", 1.0)]
    assert dict(old.buckets) == {**{str(bound): float(bound >= 0.005) for bound in BUCKETS_S}, "+Inf": 2.0}
    assert (old.total, old.largest, old.recent_largest) == (pytest.approx(10.003), 10.0, 10.0)
