"""The input of sharing, and its decision, for each model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelLoad:
    """The load of one model now: the seats that its requests would fill, the most of its engine, and its weight.

    ``late_ratio`` is the longest wait as a share of the objective of its class, 0 where nothing waits or no objective
    is stated. Only an ``urgent`` model takes seats from the others while it is late, and only a model that
    ``may_pause`` is paused for one that is late, or at its peak of memory: it ``lacks_memory`` by its own rules, or
    ``host_usage_ratio``, the share in use of the memory that its processes may use, is high. Raises ValueError for a
    weight or ``most_seats`` that is not above 0.
    """

    demand_seats: int
    most_seats: int
    weight: float = 1.0
    late_ratio: float = 0.0
    urgent: bool = False
    may_pause: bool = False
    lacks_memory: bool = False
    host_usage_ratio: float = 0.0

    def __post_init__(self) -> None:
        if not (self.weight > 0 and self.most_seats > 0):
            raise ValueError(f"weight and most_seats must be above 0, not {self.weight} and {self.most_seats}")


@dataclass(frozen=True, slots=True)
class Share:
    """The seats of one model, at least one, and whether its dispatch is paused."""

    seats: int
    paused: bool = False
