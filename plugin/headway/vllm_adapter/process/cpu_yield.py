"""CPU yielding of vLLM's processes on machines with few cores.

vLLM's engine and worker processes wait for each other by spinning on ``sched_yield`` for up to a second after each
message (distributed/device_communicators/shm_broadcast.py). On a GPU host with cores to spare that is right. On two
cores it was seen to keep a runnable web server, dashboard and client off the CPU for more than ten seconds, with plain
vLLM as well. There the wait becomes a very short sleep: seen with a model of 3 ms a step, it made a step 1.5 ms longer,
and the rest of the machine responsive again.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

_SPINNERS = "vllm.distributed.device_communicators.shm_broadcast"
_NAP_S = 0.0001
_CORES_TO_SPARE = 8


def yield_cpu() -> None:
    """Replace the spinning in this process when it runs vLLM's CPU backend on few cores."""
    module: Any = sys.modules.get(_SPINNERS)
    if module is None or not hasattr(module, "sched_yield") or len(os.sched_getaffinity(0)) > _CORES_TO_SPARE:
        return
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        module.sched_yield = _nap


def _nap() -> None:
    time.sleep(_NAP_S)
