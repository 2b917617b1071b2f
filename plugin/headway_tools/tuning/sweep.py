"""The sweep: which numbers of seats are tried, in which order, and when it goes no further.

First the seats in force, then more, then fewer. Each direction ends at its bound, or with the first step that misses
an objective which the step before it kept, or misses one by a tenth more than that, or in which more of the requests
are refused (waits that are cut to an objective become refusals); upwards also with one whose seats the load did not
fill. Where whole batches are formed (``dynamic``), the window is tried afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from headway_tools.console import FailedError, UsageError
from headway_tools.tuning.live import Live
from headway_tools.tuning.step import Objectives, Step, step_of

RATIO = 1.5
WINDOW_RATIOS = (0.0, 0.5, 2.0, 4.0)
_WORSE_RATIO = 1.1
_MAX_WINDOW_MS = 60_000.0
_DOWN_TO_RATIO = 0.125
_SHOW_EVERY_S = 0.5

#: Called with what is done, and the share of it that is done.
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Range:
    """The seats in force, the fewest and the most that may be tried, and those to try where they are given."""

    current: int
    least: int
    most: int
    given: tuple[int, ...] = ()

    @classmethod
    def of(cls, settings: Mapping[str, object], current: int, ceiling: int, given: Collection[int] = ()) -> Range:
        """The range under a preset: one seat more than it reserves, down to an eighth of the seats in force.

        Raises UsageError where a given number is outside of what the server takes.
        """
        ranked = sorted(
            (value, key.split(".")[1])
            for key, value in settings.items()
            if key.startswith("classes.") and key.endswith(".priority") and isinstance(value, int)
        )
        reserved = [settings.get(f"classes.{name}.reserved_seats") for _, name in ranked[1:]]
        kept = sum(seats for seats in reserved if isinstance(seats, int))
        wrong = [seats for seats in given if not kept < seats <= ceiling]
        if wrong:
            raise UsageError(f"--seats {wrong[0]}: this server takes {kept + 1} to {ceiling} under its preset")
        least = max(kept + 1, math.ceil(current * _DOWN_TO_RATIO))
        return cls(current, min(least, ceiling), ceiling, tuple(sorted({*given})))

    def upwards(self) -> list[int]:
        """More seats than in force, the fewest first."""
        if self.given:
            return [seats for seats in self.given if seats > self.current]
        return list(_geometric(self.current, self.most))

    def downwards(self) -> list[int]:
        """Fewer seats, the most first."""
        if self.given:
            return [seats for seats in reversed(self.given) if seats < self.current]
        found, seats = [], self.current
        while (seats := math.floor(seats / RATIO)) >= self.least and seats >= 1:
            found.append(seats)
        return found


@dataclass(slots=True)
class Swept:
    """The measurements of a sweep so far, and why it went no further. ``windows`` are at one number of seats."""

    objectives: Objectives
    baseline: Step | None = None
    steps: list[Step] = field(default_factory=list)
    windows: list[Step] = field(default_factory=list)
    stops: list[str] = field(default_factory=list)

    def by_seats(self) -> list[Step]:
        """The steps in ascending order of their seats."""
        return sorted(self.steps, key=lambda step: step.seats)


class Sweep:
    """Takes the steps. ``swept`` is complete up to the last step that was measured, also after an exception."""

    def __init__(
        self, server: Live, objectives: Objectives, *, settle_s: float, measure_s: float, progress: Progress
    ) -> None:
        self.swept = Swept(objectives)
        self._server = server
        self._settle_s, self._measure_s = settle_s, measure_s
        self._progress = progress
        self._done, self._of = 0, 1

    def seats(self, within: Range) -> None:
        """The seats in force, then upwards, then downwards."""
        up, down = within.upwards(), within.downwards()
        self._of = 1 + len(up) + len(down)
        first = self.swept.baseline = self._take(within.current, None)
        self.swept.steps.append(first)
        if not first.tokens_per_s:
            raise FailedError("the server made no token meanwhile; send it some load, or give --with-load")
        if up and not first.filled:
            self.swept.stops.append(_unfilled(first))
        else:
            self._walk(first, up, upwards=True)
        self._walk(first, down, upwards=False)

    def window(self, seats: int, window_ms: float) -> None:
        """Other windows at this number of seats."""
        tried = [ratio * window_ms for ratio in WINDOW_RATIOS] if window_ms else [10.0, 50.0]
        self._done, self._of = 0, 1 + len(tried)
        for one_ms in (window_ms, *tried):
            self.swept.windows.append(self._take(seats, min(one_ms, _MAX_WINDOW_MS)))

    # ------------------------------------------------------------------ inside

    def _walk(self, before: Step, seats: Iterable[int], *, upwards: bool) -> None:
        for number in seats:
            step = self._take(number, None)
            self.swept.steps.append(step)
            if why := _hurt(before, step, self.swept.objectives):
                self.swept.stops.append(f"not {'more' if upwards else 'fewer'} than {number} seats: {why}")
                return
            if upwards and not step.filled:
                self.swept.stops.append(_unfilled(step))
                return
            before = step

    def _take(self, seats: int, window_ms: float | None) -> Step:
        """Set the limit, settle, measure."""
        words = f"{seats} seats" if window_ms is None else f"{seats} seats, window {window_ms:g} ms"
        whole_s = self._settle_s + self._measure_s
        self._server.set_limit(seats, window_ms, whole_s)
        self._server.drained(seats, window_ms, whole_s)
        self._wait(self._settle_s, f"{words}: settling", 0.0)
        before, began_s = self._server.counts(), self._server.now_s()
        self._wait(self._measure_s, f"{words}: measuring", self._settle_s)
        after, ended_s = self._server.counts(), self._server.now_s()
        self._server.check()
        if after.tokens < before.tokens:
            raise FailedError("the engine was replaced meanwhile: its counters began anew")
        self._done += 1
        return step_of(before, after, ended_s - began_s, seats, window_ms)

    def _wait(self, length_s: float, words: str, passed_s: float) -> None:
        whole_s = self._settle_s + self._measure_s
        for part_s in _parts(length_s):
            self._progress(words, min((self._done + passed_s / whole_s) / self._of, 1.0))
            self._server.sleep(part_s)
            passed_s += part_s


def _hurt(before: Step, step: Step, objectives: Objectives) -> str:
    """The objectives that this step hurts; empty where it hurts none."""
    kept = before.missed(objectives)
    for name, ratio in step.missed(objectives).items():
        if ratio > _WORSE_RATIO * kept.get(name, 0.0):
            return f"the {name} was {ratio:.2f} times its objective"
    return f"{step.refused_ratio:.0%} of the requests were refused" if step.refuses_more(before) else ""


def _unfilled(step: Step) -> str:
    running = 0.0 if step.mean_batch is None else step.mean_batch
    return f"not more than {step.seats} seats: the load filled {running:.1f} of them"


def _geometric(current: int, most: int) -> Iterator[int]:
    seats = current
    while seats < most:
        seats = min(max(math.ceil(seats * RATIO), seats + 1), most)
        yield seats


def _parts(length_s: float) -> Iterator[float]:
    left_s = length_s
    while left_s > 0:
        yield min(left_s, _SHOW_EVERY_S)
        left_s -= _SHOW_EVERY_S
