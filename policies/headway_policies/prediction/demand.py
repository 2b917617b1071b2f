"""The seats that each class demands: Little's law on its arrivals and on how long it occupies a seat.

Arrivals are counted with a weight that halves every twenty seconds or so, so that the estimate follows the traffic of
about the last half minute, or since the first one; the time for which a seat is occupied is a mean over about the last
64 seats of the class.
Where seats have to be there as soon as a class begins to send, those of the last few seconds count as well, as far as
they are surely more: less their standard deviation, the root of their number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt

from headway_policies.prediction.decaying_rate import DecayingRate, share_left
from headway_policies.prediction.estimators import MIN_SAMPLES

_MEMORY_S, _BURST_S = 30.0, 4.0
_SEATS = 64.0


@dataclass(slots=True)
class _ClassDemand:
    """``arrivals`` in seats since ``began_s``, ``lately`` the last ones; ``ended`` is the weight of the seats whose
    ``residence_s`` is known.
    """

    began_s: float
    arrivals: DecayingRate = field(default_factory=lambda: DecayingRate(_MEMORY_S))
    lately: DecayingRate = field(default_factory=lambda: DecayingRate(_BURST_S))
    ended: float = 0.0
    residence_s: float = 0.0

    def per_s(self, now_s: float) -> float:
        """The seats that arrive in a second."""
        seen_s = now_s - self.began_s
        return self.arrivals.per_s(now_s) / (1 - share_left(seen_s if seen_s > _BURST_S else _BURST_S, _MEMORY_S))


class Demand:
    """The demand of all classes. Every call is O(1)."""

    def __init__(self) -> None:
        self._classes: dict[str, _ClassDemand] = {}

    def arrived(self, class_name: str, seats: int, now_s: float) -> None:
        """A request of so many sequences arrived."""
        one = self._of(class_name, now_s)
        one.arrivals.add(seats, now_s)
        one.lately.add(seats, now_s)

    def ended(self, class_name: str, seats: int, residence_s: float) -> None:
        """Note seats that were occupied for ``residence_s`` seconds."""
        one = self._of(class_name)
        one.ended = min(one.ended, _SEATS) + seats
        one.residence_s += (residence_s - one.residence_s) * seats / one.ended

    def fade(self) -> None:
        """The residences so far are of another limit: they count as the least that is used."""
        for demand in self._classes.values():
            demand.ended = min(demand.ended, MIN_SAMPLES)

    def total_seats(self, now_s: float) -> float:
        """The mean number of seats that all classes with enough ended requests fill."""
        return sum(self.seats(name, now_s) for name in self._classes)

    def seats(self, class_name: str, now_s: float) -> float:
        """The seats that a class fills on average; 0 while too few of its requests have ended."""
        one = self._classes.get(class_name)
        return 0.0 if one is None else one.per_s(now_s) * self.residence_s(class_name)

    def surely_seats(self, class_name: str, now_s: float) -> float:
        """The same, or the seats that the arrivals of the last seconds surely fill, where those are more."""
        one = self._classes.get(class_name)
        if one is None:
            return 0.0
        number = _BURST_S * one.lately.per_s(now_s)
        burst_per_s = (number - sqrt(number)) / _BURST_S
        return max(one.per_s(now_s), burst_per_s) * self.residence_s(class_name)

    def residence_s(self, class_name: str) -> float:
        """The mean time for which a class occupies a seat; 0 while too few of its requests have ended."""
        one = self._classes.get(class_name)
        return 0.0 if one is None or one.ended < MIN_SAMPLES else one.residence_s

    def _of(self, class_name: str, now_s: float = 0.0) -> _ClassDemand:
        found = self._classes.get(class_name)
        if found is None:
            found = self._classes[class_name] = _ClassDemand(now_s)
        return found
