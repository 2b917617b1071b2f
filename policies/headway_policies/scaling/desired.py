"""The number of instances: the most that any signal asks for, up at once and down slowly.

    arrivals     ceil(arrivals / (target * capacity of one))
    queue        the same without the target, plus what drains each late class within its objective
    memory       ceil(ready * KV use / target of the KV use)
    objectives   one more than are ready, while too few requests keep theirs
    forecast     as for arrivals, by the same time of the last days, for as long ahead as an instance takes to start

The first is the rule of the Horizontal Pod Autoscaler of Kubernetes; so is the way down: not below the most that was
asked for within ``down_after_s`` (its stabilization window). Capacity that is given back too early costs most of all
(Gandhi et al., "AutoScale", ACM TOCS 2012), and a model takes minutes to load, so instances go one at a time.

Bounds: never below ``minimum`` or above ``maximum``; the forecast adds at most ``most_ahead`` to what the present asks
for; with ``hours_a_day`` the instance hours of a day are bounded as in ``budget``. From any number down to ``n`` takes
at least ``down_after_s``, and ``down_step_s`` for each instance after the first.

Each call costs O(1) on average, but for one number a slot that the forecast looks ahead.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import ceil, inf

from headway_policies.scaling.budget import DayBudget
from headway_policies.scaling.history import DAY_S, ArrivalHistory
from headway_policies.scaling.signals import Desired, ScalingSignals, Why


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


class DesiredInstances:
    """The decision, updated every few seconds. Without a ``history`` it reacts to the present alone.

    Every ``now_s`` counts from a midnight, as those of the history and the budget do, and never runs backwards.
    """

    def __init__(self, settings: Scaling, history: ArrivalHistory | None = None) -> None:
        self._settings = settings
        self._history = history
        hours = settings.hours_a_day
        self._budget = None if hours is None else DayBudget(hours, settings.day_s)
        self._desired = settings.minimum
        self._asked: deque[tuple[float, int]] = deque()  # falling numbers, each the most since the one before it
        self._down_s = -inf

    def update(self, seen: ScalingSignals, now_s: float) -> Desired:
        """How many instances there should be now, those that start among them."""
        settings = self._settings
        if self._budget is not None:
            self._budget.spend(self._desired, now_s)
        asked = self._ask(seen, now_s)
        desired = self._hold(asked, now_s)
        if desired.instances > settings.maximum:
            desired = Desired(settings.maximum, Why.MAXIMUM)
        budget, minimum = self._budget, settings.minimum
        if budget is not None and desired.instances > minimum and not budget.allows(minimum, now_s):
            desired = Desired(minimum, Why.BUDGET)
        self._desired = desired.instances
        return desired

    def _ask(self, seen: ScalingSignals, now_s: float) -> Desired:
        """The most that any signal asks for."""
        settings, one_per_s = self._settings, seen.capacity_per_s
        target_per_s = settings.target_ratio * one_per_s
        present = _number(seen.arrivals_per_s / target_per_s)
        asked = [Desired(settings.minimum, Why.MINIMUM), Desired(present, Why.ARRIVALS)]
        late = [one for one in seen.queues.values() if one.depth and one.age_s >= settings.late_ratio * one.objective_s]
        if late:
            drain_per_s = sum(one.depth / one.objective_s for one in late)
            asked.append(Desired(_number((seen.arrivals_per_s + drain_per_s) / one_per_s), Why.QUEUE))
        if seen.kv_use is not None:
            asked.append(Desired(_number(seen.ready * seen.kv_use / settings.kv_target_ratio), Why.MEMORY))
        if seen.attained_ratio is not None and seen.attained_ratio < settings.attained_ratio:
            asked.append(Desired(seen.ready + 1, Why.OBJECTIVES))
        most = max(asked, key=_instances)
        if self._history is not None:
            expected_per_s = self._history.expected_per_s(now_s, now_s + settings.start_s + settings.ahead_s)
            if expected_per_s is not None:
                ahead = min(_number(expected_per_s / target_per_s), most.instances + settings.most_ahead)
                asked.append(Desired(ahead, Why.FORECAST))
        return max(asked, key=_instances)

    def _hold(self, asked: Desired, now_s: float) -> Desired:
        """Up at once; down by one at a time, and not below the most that was asked for of late."""
        settings, window = self._settings, self._asked
        while window and window[0][0] <= now_s - settings.down_after_s:
            window.popleft()
        while window and window[-1][1] <= asked.instances:
            window.pop()
        window.append((now_s, asked.instances))
        if asked.instances >= self._desired:
            return asked
        if window[0][1] < self._desired and now_s - self._down_s >= settings.down_step_s:
            self._down_s = now_s
            return Desired(self._desired - 1, asked.why if self._desired - 1 == asked.instances else Why.HELD)
        return Desired(self._desired, Why.HELD)


def _number(instances: float) -> int:
    """Whole instances; a rate that fits but for rounding needs no further one."""
    return ceil(instances - 1e-9)


def _instances(desired: Desired) -> int:
    return desired.instances
