"""A short memory of scrapes, and how an expression is read from it.

Each scrape is one array of doubles; all scrapes share one index from series to position, so that 30 minutes of 600
series stay below ten megabytes. A series that a scrape did not have is NaN there, and a gap in every line.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from headway_dashboard.analysis.expressions import Either, Expression, Gauge, Mean, Metric, Quantile, Rate, Share
from headway_dashboard.analysis.model import Grid, Labels, Point, Series, held, quantiles, quotient, rate, total
from headway_dashboard.sources.exposition import SampleKey

_MAX_SERIES = 20_000
_MAX_BUCKET_RATES = 32

Line = Sequence[Point]
Reader = Callable[[Sequence[float], Sequence[float]], list[Point]]


class Ring:
    """The last ``keep_s`` seconds of scrapes. A sample older than ``stale_s`` is not shown any more.

    Not thread-safe: its owner holds the lock.
    """

    def __init__(self, keep_s: float, stale_s: float) -> None:
        self._keep_s = keep_s
        self._stale_s = stale_s
        self._index: dict[SampleKey, int] = {}
        self._by_name: dict[str, list[tuple[Mapping[str, str], int]]] = defaultdict(list)
        self._frames: deque[tuple[float, array[float]]] = deque()
        self._bucket_rates: dict[tuple[Metric, Grid], dict[Labels, Line]] = {}

    def __len__(self) -> int:
        return len(self._frames)

    def add(self, time_s: float, samples: Iterable[tuple[SampleKey, float]]) -> None:
        """Remember one scrape; forget those that became too old. A clock set back forgets what it contradicts."""
        while self._frames and self._frames[-1][0] >= time_s:
            self._frames.pop()
        self._bucket_rates.clear()
        row = array("d", [math.nan]) * len(self._index)
        for key, value in samples:
            at = self._position(key)
            if at is None:
                continue
            if at == len(row):
                row.append(value)
            else:
                row[at] = value
        self._frames.append((time_s, row))
        while self._frames[0][0] < time_s - self._keep_s:
            self._frames.popleft()

    def _position(self, key: SampleKey) -> int | None:
        at = self._index.get(key)
        if at is None and len(self._index) < _MAX_SERIES:
            at = self._index[key] = len(self._index)
            self._by_name[key[0]].append((dict(key[1]), at))
        return at

    def evaluate(self, expression: Expression, on: Grid) -> Series:
        """The expression's lines on a grid."""
        return Series(on.times_s, self._lines(expression, on))

    def _lines(self, expression: Expression, on: Grid) -> dict[Labels, Line]:
        match expression:
            case Gauge(metric, largest):
                return self._grouped(metric, on, self._holder(on), _largest if largest else total)
            case Rate(metric):
                return self._grouped(metric, on, self._rater(on), total)
            case Mean(metric):
                sums = self._grouped(metric, on, self._rater(on.brisk), total, "_sum")
                counts = self._grouped(metric, on, self._rater(on.brisk), total, "_count")
                return {key: quotient(line, counts[key]) for key, line in sums.items() if key in counts}
            case Quantile(share, metric):
                return self._quantiles(share, metric, on)
            case Share(part, whole):
                wholes = self._lines(whole, on)
                return {
                    key: quotient(line, wholes[key]) for key, line in self._lines(part, on).items() if key in wholes
                }
            case Either(first, second):
                return self._lines(first, on) or self._lines(second, on)

    def _holder(self, on: Grid) -> Reader:
        return lambda times_s, values: held(times_s, values, on, self._held_s(on))

    def _rater(self, on: Grid) -> Reader:
        return lambda times_s, values: rate(times_s, values, on, self._held_s(on))

    def _held_s(self, on: Grid) -> float:
        """How old a sample may be at a point of the grid: the last point lies up to a step after now."""
        return self._stale_s + on.step_s

    def _grouped(
        self,
        metric: Metric,
        on: Grid,
        read: Reader,
        merge: Callable[[Iterable[Line]], list[Point]],
        suffix: str = "",
    ) -> dict[Labels, Line]:
        groups: dict[Labels, list[list[Point]]] = defaultdict(list)
        for labels, times_s, values in self._columns(metric, suffix, on.start_s - on.window_s):
            key = tuple(labels.get(label, "") for label in metric.by)
            groups[key].append(read(times_s, values))
        return {key: lines[0] if len(lines) == 1 else merge(lines) for key, lines in groups.items()}

    def _quantiles(self, share: float, metric: Metric, on: Grid) -> dict[Labels, Line]:
        apart = replace(metric, by=(*metric.by, "le"))
        buckets: dict[Labels, dict[float, Line]] = defaultdict(dict)
        for key, line in self._rates_of_buckets(apart, on).items():
            buckets[key[:-1]][float(key[-1])] = line
        return {key: quantiles(share, lines) for key, lines in buckets.items()}

    def _rates_of_buckets(self, metric: Metric, on: Grid) -> dict[Labels, Line]:
        """Kept until the next scrape, because p50, p95 and p99 of one histogram ask for the same lines."""
        if (metric, on) not in self._bucket_rates:
            if len(self._bucket_rates) >= _MAX_BUCKET_RATES:
                self._bucket_rates.clear()
            self._bucket_rates[metric, on] = self._grouped(metric, on, self._rater(on), total, "_bucket")
        return self._bucket_rates[metric, on]

    def _columns(
        self, metric: Metric, suffix: str, since_s: float
    ) -> Iterable[tuple[Mapping[str, str], list[float], list[float]]]:
        """Each matching series as its times and values, without the scrapes that did not have it."""
        wanted = [
            (labels, at)
            for name in (metric.name, *metric.also)
            for labels, at in self._by_name.get(name + suffix, ())
            if metric.admits(labels)
        ]
        frames = list(self._frames)
        frames = frames[bisect_left(frames, since_s, key=lambda frame: frame[0]) :]
        for labels, at in wanted:
            held_by = [(time_s, row[at]) for time_s, row in frames if at < len(row) and row[at] == row[at]]
            if held_by:
                yield labels, [time_s for time_s, _ in held_by], [value for _, value in held_by]


def _largest(lines: Iterable[Line]) -> list[Point]:
    return [max((point for point in column if point is not None), default=None) for column in zip(*lines, strict=True)]
