"""Series arithmetic: from samples to the lines of a chart.

Pure functions over plain lists. Times are seconds since the epoch; a point that was not measured is ``None``, never 0.

* A counter's *increase* restarts at each reset, as in Prometheus' ``rate``: a value below its predecessor is counted
  from zero. Unlike Prometheus there is no extrapolation to the window's edges: the rate is the increase between the
  first and the last sample inside the window, over the time between these two.
* A quantile is read from bucket rates by linear interpolation, as ``histogram_quantile`` does: the lowest bucket
  starts at 0 and the open bucket answers with its lower bound.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Literal

Point = float | None
Labels = tuple[str, ...]

MAX_POINTS = 240


@dataclass(frozen=True, slots=True)
class Grid:
    """Evenly spaced instants, both ends included. ``window_s`` is how far each point looks back for a rate."""

    start_s: float
    end_s: float
    step_s: float
    window_s: float

    @property
    def brisk(self) -> Grid:
        """The same instants with a shorter look back, for quantities that have enough samples in a few seconds."""
        return replace(self, window_s=max(10.0, self.window_s / 3))

    @property
    def times_s(self) -> tuple[float, ...]:
        """Every instant of the grid, oldest first."""
        return _instants(self.start_s, self.end_s, self.step_s)


@lru_cache(maxsize=64)
def _instants(start_s: float, end_s: float, step_s: float) -> tuple[float, ...]:
    count = round((end_s - start_s) / step_s) + 1
    return tuple(start_s + step_s * index for index in range(count))


@dataclass(frozen=True, slots=True)
class Series:
    """Lines over common instants, by the values of the labels they were grouped by."""

    times_s: tuple[float, ...]
    lines: Mapping[Labels, Sequence[Point]]

    def line(self, *labels: str) -> Sequence[Point]:
        """The line of these labels, or an empty one."""
        return self.lines.get(labels, ())

    def latest(self, *labels: str) -> Point:
        """The newest point of one line; ``None`` where it was not measured."""
        line = self.line(*labels)
        return line[-1] if line else None

    @property
    def empty(self) -> bool:
        """Whether no line has a single measured point."""
        return all(point is None for line in self.lines.values() for point in line)


NOTHING = Series((), {})


def value_of(labels: Labels) -> str:
    """The label value that names a line: the first that is there."""
    return next(filter(None, labels), "")


def grid(now_s: float, range_s: float, interval_s: float) -> Grid:
    """The grid for the last ``range_s`` before ``now_s`` with samples each ``interval_s``.

    Whole-second steps aligned to the epoch: two viewers, or two refreshes within one step, ask for the same points.
    The last point is the first instant not before ``now_s``, so that it carries the newest sample.
    """
    step_s = float(max(math.ceil(interval_s), math.ceil(range_s / MAX_POINTS), 1))
    end_s = math.ceil(now_s / step_s) * step_s
    start_s = end_s - math.floor(range_s / step_s) * step_s
    return Grid(start_s, end_s, step_s, window_s=max(30.0, 4 * interval_s, 2 * step_s))


def held(times_s: Sequence[float], values: Sequence[float], on: Grid, stale_s: float) -> list[Point]:
    """A gauge on the grid: each point is the newest sample not older than ``stale_s``, else a gap."""
    return [None if last is None else values[last] for _, last in _windows(tuple(times_s), on, stale_s)]


@lru_cache(maxsize=64)
def _windows(times_s: tuple[float, ...], on: Grid, stale_s: float) -> tuple[tuple[int, int | None], ...]:
    """The places of the first and the last sample of each instant's window; no last where it would be too old.

    The series of one server have the same times, so that this is worked out once for all of them.
    """
    found: list[tuple[int, int | None]] = []
    for instant in on.times_s:
        last = bisect_right(times_s, instant) - 1
        known = last >= 0 and instant - times_s[last] <= stale_s
        found.append((bisect_left(times_s, instant - on.window_s), last if known else None))
    return tuple(found)


def increases(values: Sequence[float]) -> list[float]:
    """The running sum of a counter's increases, from 0 at its first sample; a drop is a restart from zero."""
    total, sums = 0.0, [0.0][: len(values)]
    for before, after in pairwise(values):
        total += after - before if after >= before else after
        sums.append(total)
    return sums


def rate(times_s: Sequence[float], values: Sequence[float], on: Grid, stale_s: float) -> list[Point]:
    """A counter's increase a second over each point's window; a gap where the window holds fewer than two samples."""
    sums = increases(values)
    return [
        None if last is None or last <= first else (sums[last] - sums[first]) / (times_s[last] - times_s[first])
        for first, last in _windows(tuple(times_s), on, stale_s)
    ]


def growth(times_s: Sequence[float], values: Sequence[float], on: Grid, stale_s: float) -> list[Point]:
    """A counter's increase over each point's window; a gap where the window holds fewer than two samples."""
    sums = increases(values)
    return [
        None if last is None or last <= first else sums[last] - sums[first]
        for first, last in _windows(tuple(times_s), on, stale_s)
    ]


def peaks(times_s: Sequence[float], values: Sequence[float], on: Grid) -> list[Point]:
    """The largest sample in each point's window, as PromQL's ``max_over_time``; a gap where there is none."""
    points: list[Point] = []
    for instant in on.times_s:
        window = values[bisect_left(times_s, instant - on.window_s) : bisect_right(times_s, instant)]
        points.append(max(window, default=None))
    return points


def cut(line: Sequence[Point], tops: Sequence[Point]) -> list[Point]:
    """The line, nowhere above the tops: a quantile is interpolated, and may come out above every observation.

    A top that is missing or not positive cuts nothing.
    """
    return [
        top if point is not None and top is not None and 0 < top < point else point
        for point, top in zip(line, tops, strict=True)
    ]


def total(lines: Iterable[Sequence[Point]]) -> list[Point]:
    """The sum of lines point by point, over those that were measured; a gap where none was."""
    return [_sum(column) for column in zip(*lines, strict=True)]


def _sum(column: Iterable[Point]) -> Point:
    known = [point for point in column if point is not None]
    return math.fsum(known) if known else None


def quotient(parts: Sequence[Point], wholes: Sequence[Point]) -> list[Point]:
    """``part / whole`` point by point; a gap where either is missing or the whole is not positive."""
    return [
        part / whole if part is not None and whole is not None and whole > 0 else None
        for part, whole in zip(parts, wholes, strict=True)
    ]


def added(ones: Sequence[Point], others: Sequence[Point]) -> list[Point]:
    """Their sum point by point; a gap where either is missing."""
    return [None if one is None or other is None else one + other for one, other in zip(ones, others, strict=True)]


def quantile(share: float, buckets: Sequence[tuple[float, float]]) -> Point:
    """The value below which ``share`` of the observations lie.

    ``buckets`` are (upper bound, count at or below it), any order; the last bound must be infinite. ``None`` without
    observations.
    """
    ordered = sorted(buckets)
    if not ordered or not math.isinf(ordered[-1][0]) or ordered[-1][1] <= 0:
        return None
    rank = share * ordered[-1][1]
    lower, below = 0.0, 0.0
    for upper, reported in ordered:
        count = max(reported, below)
        if count >= rank and count > below:
            if math.isinf(upper):
                return lower
            floor = min(lower, upper)
            return floor + (upper - floor) * (rank - below) / (count - below)
        lower, below = upper, count
    return None if math.isinf(lower) else lower


def quantiles(share: float, buckets: Mapping[float, Sequence[Point]]) -> list[Point]:
    """The quantile at each point of bucket-rate lines, by upper bound, of the buckets that there are at that point: a
    server that starts anew may have others.
    """
    bounds = list(buckets)
    points: list[Point] = []
    for column in zip(*buckets.values(), strict=True):
        known = [(bound, value) for bound, value in zip(bounds, column, strict=True) if value is not None]
        points.append(quantile(share, known))
    return points


def on_grid(samples: Iterable[tuple[float, float]], on: Grid) -> list[Point]:
    """Samples of a range query put back on their grid: instants that are missing, and NaN, become gaps."""
    found = {round((time_s - on.start_s) / on.step_s): value for time_s, value in samples if math.isfinite(value)}
    return [found.get(index) for index in range(len(on.times_s))]


def newest(line: Sequence[Point]) -> Point:
    """The last measured point of a line, gaps after it ignored."""
    return next((point for point in reversed(line) if point is not None), None)


#: The state of an engine that works.
UP = "up"
MarkKind = Literal["preset", "engine", "server", "warm-up", "alert"]


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment worth a vertical line: what began at it, and of which server where that has to be said."""

    time_s: float
    label: str
    kind: MarkKind = "preset"
    of: str = ""


def change_marks(series: Series) -> list[Mark]:
    """The changes of the running preset. Lines are 1 for (preset, revision) while it runs, else 0 or missing.

    The first preset seen is where our knowledge begins, not a change; a gap between two presets still is one.
    """
    marks: list[Mark] = []
    running: Labels | None = None
    for index, time_s in enumerate(series.times_s):
        active = [labels for labels, line in series.lines.items() if line[index] == 1]
        if not active:
            continue
        now = max(active, key=lambda labels: _revision(labels[-1]))
        if running is not None and now != running:
            marks.append(Mark(time_s, now[0]))
        running = now
    return marks


def onset_marks(series: Series, labels_to_say: Mapping[str, str]) -> list[Mark]:
    """The beginnings of states. Lines are 1 where a state was seen. Only the states that are named get a mark.

    Of one instant several states may have been seen: ``UP`` counts only where it is the only one, so it begins where
    all troubles are over. The first states seen are where our knowledge begins, not an onset.
    """
    marks: list[Mark] = []
    before: set[str] = set()
    for index, time_s in enumerate(series.times_s):
        seen = {labels[0] for labels, line in series.lines.items() if line[index] == 1}
        now = seen - {UP} or seen
        if not now:
            continue
        if before:
            marks += [Mark(time_s, say, "engine") for state, say in labels_to_say.items() if state in now - before]
        before = now
    return marks


def held_s(times_s: Sequence[float], line: Sequence[Point]) -> float | None:
    """The time for which a line has been 1 up to its end; None when it is not, or was all the time that is known."""
    began_s: float | None = None
    for time_s, point in zip(reversed(times_s), reversed(line), strict=True):
        if point is None:
            return None
        if point != 1:
            return None if began_s is None else times_s[-1] - began_s
        began_s = time_s
    return None


def _revision(text: str) -> float:
    return float(text) if text.isdigit() else -1.0
