"""A run in which the number of instances follows ``headway_policies.scaling``, to judge what it decides.

An instance that is wanted serves ``start_s`` later; one that is not is given nothing more, and what runs there ends
there. Both count as instance hours from the decision on: the last seconds of one that is being emptied do not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from simulated_fleet import OneDesk, OneDeskShell

from headway_policies import Preset
from headway_policies.scaling import ArrivalHistory, ClassQueue, DesiredInstances, Scaling, ScalingSignals
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.run.result import Result
from headway_simulator.traffic.workload import Request

_INTERVAL_S = 15.0
_RATE_OVER_S = 60.0


@dataclass(frozen=True, slots=True)
class Day:
    """What the policy is told of a run: when it begins, on the clock of the ``history``, what one instance serves
    within the objectives (requests/s), and the time in which a first token is due. Without a history it only reacts.
    """

    capacity_per_s: float
    objective_s: float
    history: ArrivalHistory | None = None
    began_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ScaledRun:
    """The record of the run, the hours of all instances together, and each (time, number wanted from then on)."""

    result: Result
    instance_hours: float
    numbers: list[tuple[float, int]]


def simulate_scaled(
    requests: Iterable[Request],
    preset: Preset,
    model: EngineModel,
    seats: int,
    settings: Scaling,
    day: Day,
) -> ScaledRun:
    """Serve these requests by as many engines as the policy wants; it begins with its minimum.

    Raises PresetError where the preset contradicts the seats of the minimum or of the maximum.
    """
    shell = ScaledShell(OneDesk(preset, [model] * settings.maximum, seats), settings, day)
    result = shell.run(requests, (), None)
    return ScaledRun(result, shell.instance_hours, shell.numbers)


class ScaledShell(OneDeskShell):
    """The shell of one such run."""

    def __init__(self, one: OneDesk, settings: Scaling, day: Day) -> None:
        super().__init__(one)
        self.numbers: list[tuple[float, int]] = []
        self._one = one
        self._settings = settings
        self._day = day
        self._policy = DesiredInstances(settings, day.history)
        self._serving = list(range(settings.minimum))
        self._starting: dict[int, int] = {}  # the number of the order by the place
        self._orders = 0
        self._idle = list(range(settings.maximum - 1, settings.minimum - 1, -1))
        self._arrivals: deque[tuple[float, int]] = deque([(0.0, 0)])
        for place in self._idle:
            one.binding.close(place)
        self._carry_out(one.refit(0.0))
        self._want(settings.minimum)
        self._at(_INTERVAL_S, self._decide)

    @property
    def instance_hours(self) -> float:
        """The hours of all instances so far, those that start among them."""
        ends_s = [at_s for at_s, _ in self.numbers[1:]] + [self._now_s]
        spent_s = sum(number * (end_s - at_s) for (at_s, number), end_s in zip(self.numbers, ends_s, strict=True))
        return spent_s / 3600

    def _decide(self) -> None:
        """Ask the policy, and again later as long as requests arrive."""
        now_s = self._now_s
        desired = self._policy.update(self._seen(now_s), self._day.began_s + now_s)
        self._want(desired.instances)
        if self._next is not None:
            self._at(now_s + _INTERVAL_S, self._decide)

    def _seen(self, now_s: float) -> ScalingSignals:
        desk, day, arrivals = self._one.desk, self._day, self._arrivals
        arrivals.append((now_s, sum(counts.arrived for counts in desk.ledger.classes.values())))
        if day.history is not None:
            day.history.observe(arrivals[-1][1] - arrivals[-2][1], day.began_s + now_s)
        while len(arrivals) > 2 and arrivals[1][0] <= now_s - _RATE_OVER_S:
            arrivals.popleft()
        (since_s, before), (_, after) = arrivals[0], arrivals[-1]
        ages_s = desk.read(now_s).oldest_wait_s
        queues = {
            name: ClassQueue(counts.queued, ages_s[name], day.objective_s)
            for name, counts in desk.ledger.classes.items()
        }
        rate_per_s = (after - before) / (now_s - since_s)
        return ScalingSignals(len(self._serving), rate_per_s, day.capacity_per_s, queues)

    def _want(self, number: int) -> None:
        """Start or stop instances, so that there are so many."""
        if not self.numbers or self.numbers[-1][1] != number:
            self.numbers.append((self._now_s, number))
        stopped = False
        while len(self._serving) + len(self._starting) > number:
            if self._starting:
                self._idle.append(self._starting.popitem()[0])
                continue
            stopped = True
            place = self._serving.pop()
            self._one.binding.close(place)
            self._idle.append(place)
        while len(self._serving) + len(self._starting) < number:
            place = self._idle.pop()
            self._orders += 1
            self._starting[place] = self._orders
            self._at(self._now_s + self._settings.start_s, partial(self._started, place, self._orders))
        if stopped:
            self._carry_out(self._one.refit(self._now_s))

    def _started(self, place: int, order: int) -> None:
        """An instance serves, unless it was stopped meanwhile."""
        if self._starting.get(place) != order:
            return
        del self._starting[place]
        self._serving.append(place)
        self._one.binding.open(place)
        self._carry_out(self._one.refit(self._now_s))
