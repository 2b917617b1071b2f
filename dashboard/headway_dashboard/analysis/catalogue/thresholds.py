"""The bounds that panels, alerts and the documentation share: each number stands here once.

The diagnosis has its own numbers in ``headway_policies.diagnosis``; where a bound here is one of those, it is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headway_dashboard.analysis.units import Unit, compact
from headway_policies.diagnosis import MAX_ERROR_SHARE

_SUFFIXES: Mapping[Unit, str] = {"count": "", "per_s": "1/s", "seconds": "s", "bytes": "bytes"}

Severity = Literal["critical", "warning"]

#: Requests that ended without an answer, as a share of those that ended; and those that failed in the engine.
ERROR_RATIO = MAX_ERROR_SHARE
HIGH_ERROR_RATIO = 0.05
#: Requests that ran out of time, as a share of those that ended.
TIMEOUT_RATIO = 0.05
#: The share of five minutes in which the diagnosis says "overloaded".
OVERLOADED_RATIO = 0.5
#: The KV cache counts as full above this, where requests are preempted as well.
KV_RATIO = 0.98
#: The engine compiles a grammar for longer than this, in seconds: other structured outputs wait for it.
COMPILING_S = 30
#: A queue longer than so many batches, as multiples of the live limit.
QUEUE_BATCHES = 4
#: The wait of the oldest request of a class, as a share of the class's longest time in the queue.
QUEUE_AGE_RATIO = 0.5
#: How long a class may get no seat while its requests wait, in minutes; and the share of that time that must be
#: measured before anything is said of it.
STARVED_MIN = 10
MEASURED_RATIO = 0.95
#: Used GPU memory as a share of all; vLLM itself takes 90 % unless told otherwise.
GPU_MEMORY_RATIO = 0.95
#: Resident memory of the server's processes as a share of the limit of its control group.
MEMORY_RATIO = 0.92
#: Processor time as a share of the processors that the server may use; and what is idle beside busy processors, or
#: has no time left.
PROCESSOR_RATIO = 0.9
GPU_IDLE_RATIO = 0.8
GPU_FULL_RATIO = 0.995
ENGINE_IDLE_RATIO = 0.5
#: The share of judged requests that shall keep the objectives of their class.
TARGET_RATIO = 0.99
#: How many times faster than allowed an error budget is used up: 14.4 spends 2 % of a month's budget in an hour, 6
#: spends 5 % in six hours (Beyer et al., The Site Reliability Workbook, 2018, chapter 5).
FAST_BURN = 14.4
SLOW_BURN = 6.0
#: With fewer requests than this a share of them says little: of those that ended in five minutes, or were judged.
MIN_JUDGED = 10


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound of a panel, in the panel's unit, and the alert that it belongs to.

    ``above``: beyond it is above it; else below.
    """

    value: float
    alert: str
    severity: Severity = "warning"
    above: bool = True

    def words(self, unit: Unit) -> str:
        """The bound as text: "> 150 s"."""
        value = f"{compact(100 * self.value)} %" if unit == "ratio" else f"{compact(self.value)} {_SUFFIXES[unit]}"
        return f"{'>' if self.above else '<'} {value}".strip()


#: The bounds by the id of the panel that draws them.
PANEL_BOUNDS: Mapping[str, tuple[Bound, ...]] = {
    "kv": (Bound(KV_RATIO, "HeadwayKvCacheFull"),),
    "queue-age": (Bound(QUEUE_AGE_RATIO, "HeadwayQueueOld"),),
    "error-share": (
        Bound(ERROR_RATIO, "HeadwayUnanswered"),
        Bound(HIGH_ERROR_RATIO, "HeadwayUnansweredHigh", "critical"),
    ),
    "failed-share": (Bound(ERROR_RATIO, "HeadwayErrorShare"),),
    "timeout-share": (Bound(TIMEOUT_RATIO, "HeadwayTimeoutShare"),),
    "slo-burn": (
        Bound(SLOW_BURN, "HeadwayObjectiveBurnsSlowly"),
        Bound(FAST_BURN, "HeadwayObjectiveBurnsFast", "critical"),
    ),
    "gpu-memory-share": (Bound(GPU_MEMORY_RATIO, "HeadwayGpuMemoryFull"),),
    "memory-share": (Bound(MEMORY_RATIO, "HeadwayMemoryNearLimit", "critical"),),
    "processor": (Bound(PROCESSOR_RATIO, "HeadwayProcessorSaturated"),),
    "gpu-busy": (
        Bound(GPU_IDLE_RATIO, "HeadwayGpuIdle", above=False),
        Bound(GPU_IDLE_RATIO, "HeadwayProcessorSaturated", above=False),
        Bound(GPU_FULL_RATIO, "HeadwayGpuOverloaded"),
    ),
}
