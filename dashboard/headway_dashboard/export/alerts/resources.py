"""Alerts on memory that is nearly full, and on processors that hold up an engine or a GPU."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue.thresholds import (
    ENGINE_IDLE_RATIO,
    GPU_IDLE_RATIO,
    GPU_MEMORY_RATIO,
    MEMORY_RATIO,
    PROCESSOR_RATIO,
)
from headway_dashboard.export.readable import by_server
from headway_dashboard.export.rule import Alert, Group, number
from headway_dashboard.export.watched import GPU_MEMORY_SHARE, MEMORY_SHARE


def _processor(process: str) -> str:
    return f'max by (job, instance) (headway_processor_busy_ratio{{process="{process}"}})'


_GPU = "avg by (job, instance) (headway_gpu_busy_ratio)"
#: With a GPU it is the GPU that should compute; without one the engine's own processes.
_SATURATED = (
    f"{_processor('machine')} > {number(PROCESSOR_RATIO)}\n"
    "  and on (job, instance) (\n"
    f"    {_GPU} < {number(GPU_IDLE_RATIO)}\n"
    f"    or ({_processor('engine')} < {number(ENGINE_IDLE_RATIO)} unless on (job, instance) {_GPU})\n"
    "  )"
)

GROUP = Group(
    "headway-resources",
    (
        Alert(
            "HeadwayGpuMemoryFull",
            f"{by_server(GPU_MEMORY_SHARE).promql('')} > {number(GPU_MEMORY_RATIO)}",
            "10m",
            "warning",
            summary="{{ $labels.instance }}: {{ $value | humanizePercentage }} of the memory of GPU "
            "{{ $labels.gpu }} is used",
            action="The next allocation can end the engine. Lower --gpu-memory-utilization, or find what else uses "
            "the GPU.",
            panel="gpu-memory-share",
        ),
        Alert(
            "HeadwayMemoryNearLimit",
            f"{by_server(MEMORY_SHARE).promql('')} > {number(MEMORY_RATIO)}",
            "5m",
            "critical",
            summary="{{ $labels.instance }} uses {{ $value | humanizePercentage }} of the memory that it may use",
            action="At 100 % the kernel ends a process of it. Raise the limit of the container or unit, or give the "
            "KV cache less.",
            panel="memory-share",
        ),
        Alert(
            "HeadwayProcessorSaturated",
            _SATURATED,
            "10m",
            "warning",
            summary="{{ $labels.instance }}: the processors are {{ $value | humanizePercentage }} busy, and what "
            "computes the tokens is not",
            action="More processors, or find what else runs on the machine: the engine waits for them.",
            panel="processor",
        ),
    ),
)
