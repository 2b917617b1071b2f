"""What does it cost to read something, and how does that grow with its size? Asked of the processor, never of a clock.

SizeStats double. The cost of a size is compared with that of one sixteenth of it: a cost in proportion to the size
gives 16, one that grows with the square 256. Costs below ``FLOOR_S`` count as ``FLOOR_S``, so that the smallest sizes
say nothing; what grows too fast is noticed once it costs more than ``MAX_RATIO * FLOOR_S``, and is harmless before.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator

RATIO = 16
MAX_RATIO = 40
FLOOR_S = 0.5e-3
_TRIES = 8

#: Prepares what is to be measured for a size; the call that it returns may be made again and again.
Prepare = Callable[[int], Callable[[], object]]


def too_fast(prepare: Prepare, first: int, last: int) -> str:
    """The first size whose cost has grown too fast, in words; empty when all is well."""
    costs_s = {size: cost_s(prepare(size)) for size in _doubling(first, RATIO * first // 2)}
    for size in _doubling(RATIO * first, last):
        costs_s[size] = cost_s(prepare(size))
        small = size // RATIO
        for _ in range(_TRIES):  # a busy machine only ever adds
            if costs_s[size] <= MAX_RATIO * costs_s[small]:
                break
            costs_s[size] = min(costs_s[size], cost_s(prepare(size)))
        else:
            return f"{size}: {costs_s[size] * 1e3:.1f} ms, and {small}: {costs_s[small] * 1e3:.1f} ms"
    return ""


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
    """The memory that what ``keep`` returns holds."""
    gc.collect()
    tracemalloc.start()
    try:
        kept = keep()
        gc.collect()
        size_bytes = tracemalloc.get_traced_memory()[0]
        del kept
        return size_bytes
    finally:
        tracemalloc.stop()


def peak_bytes(run: Callable[[], object]) -> int:
    """The most memory that is held at once during one call."""
    gc.collect()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _doubling(first: int, last: int) -> Iterator[int]:
    size = first
    while size <= last:
        yield size
        size *= 2
