"""Alerts on memory that is nearly full, on GPUs with too little or too much work, and on busy processors."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue import memory_panels, panels
from headway_dashboard.analysis.catalogue.alerts.rule import Group, Rule
from headway_dashboard.analysis.catalogue.thresholds import (
    ENGINE_IDLE_RATIO,
    GPU_FULL_RATIO,
    GPU_IDLE_RATIO,
    GPU_MEMORY_RATIO,
    MEMORY_RATIO,
    PROCESSOR_RATIO,
)
from headway_dashboard.analysis.queries.conditions import Average, Compared, Joined, Least
from headway_dashboard.analysis.queries.expressions import Gauge, Metric, Share

GPU_MEMORY_SHARE = Share(
    Gauge(Metric("headway_gpu_memory_used_bytes", by=("gpu",))),
    Gauge(Metric("headway_gpu_memory_total_bytes", by=("gpu",))),
)
MEMORY_SHARE = Share(
    Gauge(Metric("headway_process_resident_bytes")),
    Gauge(Metric("headway_memory_limit_bytes"), largest=True),
)


def _busy(process: str) -> Gauge:
    return Gauge(Metric("headway_processor_busy_ratio", (("process", (process,)),)), largest=True)


_GPU = Gauge(Metric("headway_gpu_busy_ratio"), mean=True)
#: With a GPU it is the GPU that should compute; without one the engine's own processes.
_IDLE = Joined(
    Compared(_GPU, "<", GPU_IDLE_RATIO),
    "or",
    Joined(Compared(_busy("engine"), "<", ENGINE_IDLE_RATIO), "unless", _GPU),
)
#: A minute of both: a queue of a moment is no alarm, nor is a step in which a GPU waits.
_GPU_MINUTE = Average(memory_panels.GPU_BUSY, 60)
_RUNS = Compared(Least(panels.SEATS, 60), ">", 0)  # of a server without requests nothing is slowed down
_WAITED = Compared(Least(panels.QUEUED, 60), ">", 0)
#: Work without haste may wait all day: it shall fill the GPU.
_URGENT_WAITED = Compared(Least(Gauge(Metric("headway_queue_depth", without=(("class", ("batch",)),))), 60), ">", 0)

GROUP = Group(
    "headway-resources",
    (
        Rule(
            "HeadwayGpuMemoryFull",
            Compared(GPU_MEMORY_SHARE, ">", GPU_MEMORY_RATIO),
            "10m",
            "warning",
            text="{value} of the memory of GPU {gpu} is used",
            action="The next allocation can end the engine. Lower --gpu-memory-utilization, or find what else uses "
            "the GPU.",
            unit="ratio",
            panel="gpu-memory-share",
        ),
        Rule(
            "HeadwayMemoryNearLimit",
            Compared(MEMORY_SHARE, ">", MEMORY_RATIO),
            "5m",
            "critical",
            text="the server uses {value} of the memory that it may use",
            action="At 100 % the kernel ends a process of it. Raise the limit of the container or unit, or give the "
            "KV cache less.",
            unit="ratio",
            panel="memory-share",
        ),
        Rule(
            "HeadwayGpuIdle",
            Joined(Compared(_GPU_MINUTE, "<", GPU_IDLE_RATIO), "and", _WAITED),
            "5m",
            "warning",
            text="GPU {gpu} computes {value} of the time while requests wait",
            action="`headway status` names the cause. The usual causes are a busy processor, too few seats and a "
            "pause.",
            unit="ratio",
            panel="gpu-busy",
        ),
        Rule(
            "HeadwayGpuOverloaded",
            Joined(Compared(_GPU_MINUTE, ">", GPU_FULL_RATIO), "and", _URGENT_WAITED),
            "5m",
            "warning",
            text="GPU {gpu} computes all the time, and requests of other classes than batch wait",
            action="More requests arrive than it can serve: add a server, or send it less. More seats only make the "
            "tokens slower.",
            unit="ratio",
            panel="gpu-busy",
        ),
        Rule(
            "HeadwayProcessorSaturated",
            Joined(Joined(Compared(_busy("machine"), ">", PROCESSOR_RATIO), "and", _IDLE), "and", _RUNS),
            "10m",
            "warning",
            text="the processors are {value} busy, and what computes the tokens is not",
            action="More processors, or find what else runs on the machine: the engine waits for them.",
            unit="ratio",
            panel="processor",
        ),
    ),
)
