"""How does a cost grow with the size of what is given? In CPU time of this thread, for others use the machine too."""

from __future__ import annotations

import time
from collections.abc import Callable

_TRIES = 5
#: A size sixteen times as large may cost this many times as much: 16 when linear, 256 when quadratic.
_MAX_GROWTH = 40.0
_FACTOR = 16
#: What a call costs at any size; less than this is not told apart.
_FLOOR_S = 0.0005


def cost_s(work: Callable[[], object]) -> float:
    """The least CPU time of a few tries."""
    return min(_once(work) for _ in range(_TRIES))


def assert_linear(work: Callable[[int], Callable[[], object]], size: int) -> None:
    """``work(size)`` prepares a call; its cost at 16 times the size is at most 40 times that at ``size``."""
    small_s, large_s = cost_s(work(size)), cost_s(work(_FACTOR * size))
    assert large_s <= _MAX_GROWTH * max(small_s, _FLOOR_S), f"{small_s:.6f} s became {large_s:.6f} s"


def _once(work: Callable[[], object]) -> float:
    began_s = time.thread_time()
    work()
    return time.thread_time() - began_s
