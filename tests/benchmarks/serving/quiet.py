"""Whether the machine was quiet during a block: two checks, of which either marks it as disturbed.

The processor time of all processes but the benchmark's own (``/proc/stat``, stolen time included), as a share of what
the machine has; and a loop of Python, timed before the block, against the fastest one of the run.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import psutil

MAX_OTHERS = 0.10
MAX_SLOWER = 1.25
_TURNS = 1_000_000


def spin_s() -> float:
    """Seconds for a fixed number of turns of a loop."""
    begin_s, total = time.perf_counter(), 0
    for turn in range(_TURNS):
        total += turn
    return time.perf_counter() - begin_s


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of all processors so far: of the benchmark's processes, and of all that ran or was stolen."""

    at_s: float
    own_s: float
    all_s: float

    @classmethod
    def now(cls) -> Times:
        """Read them."""
        total = psutil.cpu_times()
        busy_s = total.user + total.nice + total.system + total.irq + total.softirq + total.steal
        return cls(time.monotonic(), _own_s(), busy_s)


def others_share(before: Times, after: Times) -> float:
    """The share of the machine's processor time that other processes used, 0 to 1."""
    length_s = max(after.at_s - before.at_s, 1e-9) * (os.cpu_count() or 1)
    return max(0.0, (after.all_s - before.all_s) - (after.own_s - before.own_s)) / length_s


def _own_s() -> float:
    """This process and all below it."""
    me, total_s = psutil.Process(), 0.0
    for one in (me, *me.children(recursive=True)):
        times = one.cpu_times()
        total_s += times.user + times.system
    return total_s
