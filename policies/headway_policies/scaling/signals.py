"""The input of scaling, and its decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf


class Why(StrEnum):
    """The reason for a number of instances."""

    MINIMUM = "minimum"
    ARRIVALS = "arrivals"
    QUEUE = "queue"
    MEMORY = "memory"
    OBJECTIVES = "objectives"
    FORECAST = "forecast"
    HELD = "held"
    MAXIMUM = "maximum"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Desired:
    """A number of instances, and why not fewer; for ``MAXIMUM`` and ``BUDGET`` why not more."""

    instances: int
    why: Why


@dataclass(frozen=True, slots=True)
class ClassQueue:
    """The waiting requests of a class: their ``depth``, the age of the oldest, and the time in which its first token is
    due.

    The depth is requests where the capacity is requests/s, and seat seconds where it is seats. Raises ValueError for
    an ``objective_s`` that is not above 0.
    """

    depth: float
    age_s: float
    objective_s: float

    def __post_init__(self) -> None:
        if not self.objective_s > 0:
            raise ValueError(f"a queue's objective_s must be above 0, not {self.objective_s}")


@dataclass(frozen=True, slots=True)
class ScalingSignals:
    """The present load. ``ready`` instances serve. ``capacity`` is what one of them serves within its objectives.

    ``offered`` is what arrives, a mean of about the last minute, refused requests included. Both have the same unit:
    requests/s, or by Little's law the seats that requests fill, which follow their lengths, too.
    ``attained_ratio`` is the share of the requests served of late that kept their objectives, None where none was.
    ``kv_use`` is the share of the KV cache in use, 0 to 1, the mean of the instances that serve; None where unknown.
    Raises ValueError for a number that makes no sense.
    """

    ready: int
    offered: float
    capacity: float
    queues: Mapping[str, ClassQueue] = field(default_factory=dict)
    attained_ratio: float | None = None
    kv_use: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.capacity < inf:
            raise ValueError(f"capacity must be above 0 and finite, not {self.capacity}")
        if not 0 <= self.offered < inf:
            raise ValueError(f"offered must be from 0 on and finite, not {self.offered}")
        if self.kv_use is not None and not 0 <= self.kv_use <= 1:
            raise ValueError(f"kv_use must be between 0 and 1, not {self.kv_use}")
