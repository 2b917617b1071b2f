"""The counts of a batcher.

How to read them: a mean batch far below the cap means a window too short, or no traffic; a mean batch at the cap while
latency rises means that another instance is needed.
"""

from __future__ import annotations

from typing_extensions import TypedDict  # pydantic and FastAPI accept typing's only from Python 3.12 on

from headway_policies import Desk, Outcome, Reason

_DROPPED = (Reason.QUEUE_FULL, Reason.CLASS_QUEUE_FULL, Reason.EVICTED)


class BatcherStats(TypedDict):
    """The figures of a batcher so far.

    ``total_requests`` have left in ``batches``; ``queue_sizes`` counts waiting requests, by priority from 0 up;
    ``running`` have left and not ended; ``dropped`` found the queue full, or were evicted from it; ``outcomes`` has
    every end; of these ``degraded`` got the result of ``on_timeout``. A batch has now at most ``batch_limit`` items.
    """

    batches: int
    total_requests: int
    avg_batch_size: float
    queue_sizes: list[int]
    total_queued: int
    running: int
    dropped: int
    max_size: int
    outcomes: dict[str, int]
    degraded: int
    batch_limit: int


def batcher_stats(desk: Desk, batches: int, requests: int, degraded: int) -> BatcherStats:
    """The figures of a batcher from its desk. Counts are looked up and none iterated over, so any thread may ask."""
    classes = list(desk.ledger.classes.values())
    sizes = [counts.queued for counts in classes]
    return BatcherStats(
        batches=batches,
        total_requests=requests,
        avg_batch_size=requests / batches if batches else 0.0,
        queue_sizes=sizes,
        total_queued=sum(sizes),
        running=sum(counts.in_flight for counts in classes),
        dropped=sum(counts.refusals[reason] for counts in classes for reason in _DROPPED),
        max_size=desk.preset.queue.max_waiting,
        outcomes={str(outcome): sum(counts.outcomes[outcome] for counts in classes) for outcome in Outcome},
        degraded=degraded,
        batch_limit=desk.limit,
    )
