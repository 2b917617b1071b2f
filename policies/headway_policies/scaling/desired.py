"""The number of instances: the most that any signal asks for, up at once and down slowly.

    arrivals     ceil(arrivals / (target * capacity of one))
    queue        the same without the target, plus what drains each late class within its objective
    memory       ceil(ready * KV use / target of the KV use)
    objectives   one more than are ready, while too few requests keep theirs
    forecast     as for arrivals, by the same time of the last days, for as long ahead as an instance takes to start

The first is the rule of the Horizontal Pod Autoscaler of Kubernetes; so is the decrease: not below the largest number
of the last ``down_after_s`` (its stabilization window). Removing capacity too early costs the most (Gandhi
et al., "AutoScale", ACM TOCS 2012), and a model takes minutes to load, so instances are removed one at a time.

Bounds: never below ``minimum`` or above ``maximum``; the forecast adds at most ``most_ahead`` to what the present asks
for; with ``hours_a_day`` the instance hours of a day are bounded as in ``budget``. From any number down to ``n`` takes
at least ``down_after_s``, and ``down_step_s`` for each instance after the first.

Each call costs O(1) on average, but for one number a slot that the forecast looks ahead.
"""

from __future__ import annotations

from collections import deque
from math import ceil, inf

from headway_policies.scaling.budget import DayBudget
from headway_policies.scaling.history import ArrivalHistory
from headway_policies.scaling.need import present_needs
from headway_policies.scaling.settings import Scaling
from headway_policies.scaling.signals import Desired, ScalingSignals, Why


class DesiredInstances:
    """The decision, updated every few seconds. Without a ``history`` it reacts to the present alone.

    ``running`` is the number of instances at the beginning, which counts as just asked for. Every ``now_s``
    counts from a midnight, as those of the history and the budget do, and never runs backwards.
    """

    def __init__(self, settings: Scaling, history: ArrivalHistory | None = None, running: int = 0) -> None:
        self._settings = settings
        self._history = history
        hours = settings.hours_a_day
        self._budget = None if hours is None else DayBudget(hours, settings.day_s)
        self._desired = min(max(settings.minimum, running), settings.maximum)
        self._began = False
        self._asked: deque[tuple[float, int]] = deque()  # falling numbers, each the most since the one before it
        self._down_s = -inf

    def spent(self) -> tuple[float, float] | None:
        """The time of the last update and the instance seconds of its day; None without a bound on them."""
        return None if self._budget is None else self._budget.spent()

    def recall_spent(self, now_s: float, spent_s: float) -> None:
        """Continue from there, where there is a bound: what runs now has run since then."""
        if self._budget is not None:
            self._budget.recall(now_s, spent_s)

    def update(self, seen: ScalingSignals, now_s: float) -> Desired:
        """The number of instances wanted now, including starting instances."""
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
        """The largest number that any signal asks for."""
        settings = self._settings
        asked = [Desired(settings.minimum, Why.MINIMUM)]
        asked += [Desired(_number(need.instances), need.why) for need in present_needs(settings, seen)]
        most = max(asked, key=_instances)
        if self._history is not None:
            expected = self._history.expected_per_s(now_s, now_s + settings.start_s + settings.ahead_s)
            if expected is not None:
                needed = _number(expected / (settings.target_ratio * seen.capacity))
                ahead = min(needed, most.instances + settings.most_ahead)
                asked.append(Desired(ahead, Why.FORECAST))
        return max(asked, key=_instances)

    def _hold(self, asked: Desired, now_s: float) -> Desired:
        """Up at once; down by one at a time, and not below the largest recent number."""
        settings, window = self._settings, self._asked
        if not self._began:
            self._began = True
            window.append((now_s, self._desired))
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
