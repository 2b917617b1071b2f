"""CPU yielding of vLLM's processes on machines with few cores.

vLLM's engine and worker processes wait for each other by spinning on ``sched_yield`` for up to a second after each
message (distributed/device_communicators/shm_broadcast.py). On a GPU host with cores to spare that is right. On two
cores it was seen to keep a runnable web server, dashboard and client off the CPU for more than ten seconds, with plain
vLLM as well.

There they spin for the first millisecond of a wait, in which a small model answers, and then sleep, 0.1 ms at a time.
Measured on two cores against vLLM's own spinning, in turn, nine and four rounds (medians):

    a step of      tokens/s of 1 and 16 requests    processors in use           sleeping at once
    4 ms           0.997, 1.027                     1.55, 1.42 of 1.82, 1.66    0.85, 0.92 (tokens/s)
    30 ms          0.993, 1.011                     1.18, 1.16 of 1.88, 1.86    0.998, 1.017
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

_SPINNERS = "vllm.distributed.device_communicators.shm_broadcast"
_SPIN_S = 0.001
_NAP_S = 0.0001
_NEW_WAIT_AFTER_S = 0.00003  # longer than from one look to the next, shorter than any work
_CORES_TO_SPARE = 8


def yield_cpu() -> None:
    """Replace the spinning in this process when it runs vLLM's CPU backend on few cores."""
    module: Any = sys.modules.get(_SPINNERS)
    if module is not None and hasattr(module, "sched_yield") and is_short_of_cores():
        module.sched_yield = BoundedSpin(module.sched_yield)


def is_short_of_cores() -> bool:
    """Whether vLLM's CPU backend runs on few cores."""
    if len(os.sched_getaffinity(0)) > _CORES_TO_SPARE:
        return False
    from vllm.platforms import current_platform

    return bool(current_platform.is_cpu())


class BoundedSpin:
    """A wait to be called again and again while something is awaited: it spins at first, then sleeps.

    A call later than ``_NEW_WAIT_AFTER_S`` after the one before begins a new wait: in between there was work.
    """

    def __init__(
        self,
        spin: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._spin, self._clock, self._sleep = spin, clock, sleep
        self._began_s = self._left_s = clock()

    def __call__(self) -> None:
        """Give way once."""
        now_s = self._clock()
        if now_s - self._left_s > _NEW_WAIT_AFTER_S:
            self._began_s = now_s
        if now_s - self._began_s < _SPIN_S:
            self._spin()
        else:
            self._sleep(_NAP_S)
        self._left_s = self._clock()
