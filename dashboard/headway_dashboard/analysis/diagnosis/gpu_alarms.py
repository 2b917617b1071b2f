"""Two alarms about the GPU, and what else may hold it back: the processor.

A GPU below 80 % while requests wait has work that does not reach it; one at 100 % while requests wait has more work
than it can do.
"""

from __future__ import annotations

from math import fsum

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.catalogue.memory_panels import GPU_BUSY, PROCESSOR_BUSY
from headway_dashboard.analysis.catalogue.thresholds import GPU_IDLE_RATIO, PROCESSOR_RATIO
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.units import counted, duration, written

FULL_FROM_RATIO = 0.995
#: The share of the recent points at which requests must have waited: a queue of a moment is no alarm.
_MOSTLY = 0.8
_LATELY_S = 30.0

EXPRESSIONS: tuple[Expression, ...] = (GPU_BUSY, PROCESSOR_BUSY, panels.QUEUED)


def gpu_alarms(reading: SourceReading) -> list[str]:
    """The alarms that hold over the last half minute, in sentences; none without a GPU. ``reading`` has EXPRESSIONS."""
    queued = _lately(reading, panels.QUEUED).get("", [])
    if not queued or sum(point > 0 for point in queued) < _MOSTLY * len(queued):
        return []
    found = []
    for gpu, busy in _means(reading, GPU_BUSY).items():
        where = f"GPU {gpu} computed {written(busy, 'ratio')} of the last {duration(_LATELY_S)}"
        if busy < GPU_IDLE_RATIO:
            found.append(f"Idle: {where}, while requests waited{_processor(reading)}.")
        elif busy >= FULL_FROM_RATIO:
            found.append(f"Overloaded: {where}, and {counted(queued[-1], 'request waits', 'requests wait')}.")
    return found


def _processor(reading: SourceReading) -> str:
    """The advice where the GPU is not the bottleneck."""
    full = [name for name, busy in _means(reading, PROCESSOR_BUSY).items() if busy >= PROCESSOR_RATIO]
    return "; the processor is busy all the time and may be the bottleneck" if full else ""


def _means(reading: SourceReading, expression: Expression) -> dict[str, float]:
    lines = _lately(reading, expression)
    return {name: fsum(points) / len(points) for name, points in lines.items() if points}


def _lately(reading: SourceReading, expression: Expression) -> dict[str, list[float]]:
    """The measured points of the last half minute, by the label of each line."""
    series = reading[expression]
    since_s = reading.end_s - _LATELY_S
    return {
        labels[0] if labels else "": [
            point for time_s, point in zip(series.times_s, line, strict=True) if point is not None and time_s >= since_s
        ]
        for labels, line in series.lines.items()
    }
