"""The settings of scaling."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from headway_policies.scaling.history import DAY_S


@dataclass(frozen=True, slots=True)
class Scaling:
    """The settings. ``start_s`` is how long an instance takes until it serves; ``ahead_s`` is looked beyond that.

    A queue is late once its oldest request has waited ``late_ratio`` of its objective. Raises ValueError for settings
    that contradict each other.
    """

    minimum: int = 1
    maximum: int = 8
    start_s: float = 180.0
    ahead_s: float = 300.0
    target_ratio: float = 0.8
    kv_target_ratio: float = 0.9
    late_ratio: float = 0.5
    attained_ratio: float = 0.95
    down_after_s: float = 300.0
    down_step_s: float = 60.0
    most_ahead: int = 4
    hours_a_day: float | None = None
    day_s: float = DAY_S

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.maximum:
            raise ValueError(f"scaling: minimum {self.minimum} must be from 1 to the maximum of {self.maximum}")
        for name in ("target_ratio", "kv_target_ratio", "attained_ratio"):
            if not 0 < (value := getattr(self, name)) <= 1:
                raise ValueError(f"scaling: {name} must be above 0 and at most 1, not {value}")
        for name in ("start_s", "ahead_s", "late_ratio", "down_after_s", "down_step_s", "most_ahead"):
            if not 0 <= (value := getattr(self, name)) < inf:
                raise ValueError(f"scaling: {name} must be from 0 on and finite, not {value}")
