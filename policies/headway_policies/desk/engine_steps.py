"""The engine's steps, as the parts of the desk that learn from them are told of them.

While no ticket waits there is nothing to dispatch at a step, and steps that are alike are passed on together
(``EqualSteps``), at the latest before the next event or question.
"""

from __future__ import annotations

from headway_policies.desk.capacity import Capacity
from headway_policies.desk.forecast import Forecast
from headway_policies.desk.objectives import Objectives
from headway_policies.desk.scheduler import Scheduler
from headway_policies.limits import EqualSteps, Load, StepReport


class EngineSteps:
    """Passes each step on, to the limit, the model of the prefix cache and the objectives that follow the engine."""

    def __init__(self, capacity: Capacity, scheduler: Scheduler, forecast: Forecast, objectives: Objectives) -> None:
        self._capacity = capacity
        self._scheduler = scheduler
        self._forecast = forecast
        self._objectives = objectives
        self._alike = EqualSteps()

    def made(self, load: Load, now_s: float) -> bool:
        """The engine made a step. False: it is kept, and changes nothing yet."""
        waits = self._scheduler.queue.total.requests > 0
        reports = [*self._alike.take(), StepReport(load, now_s)] if waits else self._alike.add(load, now_s)
        self._pass_on(reports)
        return bool(reports)

    def catch_up(self, now_s: float) -> None:
        """Pass on the kept reports, and weigh the limit: before any event, and any question."""
        self._pass_on(self._alike.take())
        if self._capacity.adapts or self._capacity.opening.moving:
            self._capacity.weigh(now_s)

    def _pass_on(self, reports: list[StepReport]) -> None:
        scheduler, forecast = self._scheduler, self._forecast
        for load, at_s in reports:
            taken, queued = scheduler.seats.taken, scheduler.queue.total.requests
            self._capacity.observe(load, taken, queued, forecast.sizes, forecast.pace.ratio, at_s)
            scheduler.observe(load)
            self._objectives.observed()
