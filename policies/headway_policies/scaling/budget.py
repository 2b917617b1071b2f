"""A bound on the instance hours of one day.

Bound: in a day no more than ``hours_a_day`` are spent, as long as the minimum alone needs no more and the budget is
asked often; between two calls ``d`` seconds apart at most ``(maximum - minimum) * d`` are spent beyond it.
"""

from __future__ import annotations

from headway_policies.scaling.history import DAY_S

_HOUR_S = 3600.0


class DayBudget:
    """The instance hours spent since midnight. Every ``now_s`` counts from a midnight and never runs backwards."""

    def __init__(self, hours_a_day: float, day_s: float = DAY_S) -> None:
        self._most_s = hours_a_day * _HOUR_S
        self._day_s = day_s
        self._spent_s = 0.0
        self._now_s: float | None = None

    def spent(self) -> tuple[float, float]:
        """The time of the last ``spend``, and the instance seconds since the midnight before: for another process."""
        return 0.0 if self._now_s is None else self._now_s, self._spent_s

    def recall(self, now_s: float, spent_s: float) -> None:
        """Continue from there: the instances of the next call have run since then."""
        self._now_s, self._spent_s = now_s, spent_s

    def spend(self, instances: int, now_s: float) -> None:
        """Count this number of instances since the last call."""
        began_s = now_s if self._now_s is None else self._now_s
        midnight_s = now_s // self._day_s * self._day_s
        if began_s < midnight_s:
            began_s, self._spent_s = midnight_s, 0.0
        self._spent_s += instances * (now_s - began_s)
        self._now_s = now_s

    def allows(self, minimum: int, now_s: float) -> bool:
        """Whether more than the minimum may run: more is left than the minimum needs for the rest of the day."""
        left_s = self._day_s - now_s % self._day_s
        return self._spent_s + minimum * left_s < self._most_s
