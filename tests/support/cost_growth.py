"""Growth of CPU time and memory with the size of an input, measured in thread CPU time rather than wall-clock time; and
lines of Python, a measure of a cost that no other load disturbs.

Each size is four times the one before. Its cost is compared with that of one sixteenth of it: linear growth gives a
ratio of 16, quadratic growth 256. Costs below ``FLOOR_S`` count as ``FLOOR_S``, since such small costs cannot be
measured reliably. Superlinear growth is therefore detected once it costs more than ``MAX_RATIO * FLOOR_S``; below that
it is harmless.
"""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

RATIO, STEP = 16, 4
MAX_RATIO = 40
FLOOR_S = 0.5e-3
_TRIES = 8

#: Prepares the input of a size; returns the call to measure, which may be repeated.
Prepare = Callable[[int], Callable[[], object]]


def superlinear_growth(prepare: Prepare, first: int, last: int) -> str:
    """The first size whose cost has grown faster than allowed, as text; empty when there is none."""
    assert last >= RATIO * first, "no size would be compared with another"
    costs_s: dict[int, float] = {}
    for size in _sizes(first, last):
        costs_s[size], small = cost_s(prepare(size)), size // RATIO
        if small not in costs_s:
            continue
        for _ in range(_TRIES):  # other load can only add to a measurement
            if costs_s[size] <= MAX_RATIO * costs_s[small]:
                break
            costs_s[size] = min(costs_s[size], cost_s(prepare(size)))
        else:
            return f"{size}: {costs_s[size] * 1e3:.1f} ms, and {small}: {costs_s[small] * 1e3:.1f} ms"
    return ""


def assert_linear(prepare: Prepare, size: int) -> None:
    """At ``RATIO`` times ``size``, the cost is at most ``MAX_RATIO`` times the cost at ``size``."""
    assert superlinear_growth(prepare, size, RATIO * size) == ""


def cost_s(run: Callable[[], object]) -> float:
    """Processor time of this thread for one call, at least ``FLOOR_S``."""
    collects = gc.isenabled()
    gc.collect(0)
    gc.disable()
    try:
        began_s = time.thread_time()
        run()
        return max(FLOOR_S, time.thread_time() - began_s)
    finally:
        if collects:
            gc.enable()


def kept_bytes(keep: Callable[[], object]) -> int:
    """The memory held by the return value of ``keep``."""
    with _traced():
        kept = keep()
        gc.collect()
        size_bytes = tracemalloc.get_traced_memory()[0]
        del kept
        return size_bytes


def peak_bytes(run: Callable[[], object]) -> int:
    """The peak memory during one call."""
    with _traced():
        run()
        return tracemalloc.get_traced_memory()[1]


@contextmanager
def _traced() -> Iterator[None]:
    """What was there before is not traced, and collections leave it out: else walking it would cost seconds."""
    gc.freeze()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def _sizes(first: int, last: int) -> list[int]:
    """From ``first``, or up to three times as much, to ``last``."""
    sizes = [last]
    while sizes[-1] >= STEP * first:
        sizes.append(sizes[-1] // STEP)
    return sizes[::-1]


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python a call runs."""
    lines = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines
