"""The two alarms about the GPU."""

from __future__ import annotations

import pytest
from readings import reading_of

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.catalogue.memory_panels import GPU_BUSY, PROCESSOR_BUSY
from headway_dashboard.analysis.diagnosis.gpu_alarms import gpu_alarms

WAITING = [5.0] * 16


def alarms(busy: list[float | None], queued: list[float], processor: float | None = None) -> list[str]:
    """The alarms of one GPU."""
    answers = {
        GPU_BUSY: {("0",): busy},
        panels.QUEUED: queued,
        PROCESSOR_BUSY: {("engine",): [processor] * len(busy)},
    }
    return [one.replace("\u00a0", " ") for one in gpu_alarms(reading_of(answers))]


@pytest.mark.parametrize(
    ("busy", "queued", "begins"),
    [
        (0.5, 5.0, "Idle: GPU 0 computed 50 %"),
        (1.0, 5.0, "Overloaded: GPU 0 computed 100 %"),
        (0.9, 5.0, ""),
        (0.8, 5.0, ""),
        (0.5, 0.0, ""),
        (1.0, 0.0, ""),
    ],
    ids=["idle", "overloaded", "busy", "just busy enough", "idle without a queue", "full without a queue"],
)
def test_an_alarm_needs_a_queue(busy: float, queued: float, begins: str) -> None:
    """Below 80 % with waiting requests, or at 100 % with a backlog; never without one."""
    found = alarms([busy] * 16, [queued] * 16)
    assert [one[: len(begins)] for one in found] == ([begins] if begins else [])


def test_a_moment_is_no_alarm() -> None:
    """The mean of half a minute counts, and a queue that came just now does not."""
    assert alarms([0.9] * 15 + [0.1], WAITING) == []
    assert alarms([0.1] * 16, [0.0] * 13 + [5.0] * 3) == []


def test_a_busy_processor_is_named() -> None:
    """A GPU that waits for the processor is told apart from one that waits for nothing that is known."""
    (told,) = alarms([0.3] * 16, WAITING, processor=0.97)
    assert "the processor is busy all the time" in told
    (plain,) = alarms([0.3] * 16, WAITING, processor=0.4)
    assert "processor" not in plain


def test_without_a_gpu_there_is_no_alarm() -> None:
    """On a CPU nothing is said of a GPU."""
    assert gpu_alarms(reading_of({panels.QUEUED: WAITING})) == []
    assert alarms([None] * 16, WAITING) == []
    assert gpu_alarms(reading_of({})) == []
