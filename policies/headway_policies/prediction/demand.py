"""The seats that each class demands: Little's law on its arrivals and on how long it holds a seat.

Arrivals are counted with a weight that halves every twenty seconds or so, so that the estimate follows the traffic of
about the last half minute; the time for which a seat is held is a mean over about the last 64 seats of the class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headway_policies.prediction.estimators import MIN_SAMPLES

_MEMORY_S = 30.0
_SEATS = 64.0


@dataclass(slots=True)
class _ClassDemand:
    """``arrived`` and ``ended`` are weights, in seats; ``since_s`` is the time of the last arrival."""

    arrived: float = 0.0
    since_s: float = 0.0
    ended: float = 0.0
    residence_s: float = 0.0


class Demand:
    """The demand of all classes. Every call is O(1)."""

    def __init__(self) -> None:
        self._classes: dict[str, _ClassDemand] = {}

    def arrived(self, class_name: str, seats: int, now_s: float) -> None:
        """A request of so many sequences arrived."""
        one = self._classes.setdefault(class_name, _ClassDemand())
        one.arrived = one.arrived * math.exp(-max(0.0, now_s - one.since_s) / _MEMORY_S) + seats
        one.since_s = now_s

    def ended(self, class_name: str, seats: int, residence_s: float) -> None:
        """So many seats were held for ``residence_s`` seconds."""
        one = self._classes.setdefault(class_name, _ClassDemand())
        one.ended = min(one.ended, _SEATS) + seats
        one.residence_s += (residence_s - one.residence_s) * seats / one.ended

    def total_seats(self, now_s: float) -> float:
        """The seats that all classes fill on average, as far as that is known."""
        return sum(self.seats(name, now_s) for name in self._classes)

    def seats(self, class_name: str, now_s: float) -> float:
        """The seats that a class fills on average; 0 while too few of its requests have ended."""
        one = self._classes.get(class_name)
        if one is None or one.ended < MIN_SAMPLES:
            return 0.0
        arrived = one.arrived * math.exp(-max(0.0, now_s - one.since_s) / _MEMORY_S)
        return arrived / _MEMORY_S * one.residence_s
