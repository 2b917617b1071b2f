"""A short memory of the scrapes of one server.

Each scrape is one array of doubles; all scrapes share one index from series to position, so that 30 minutes of 1200
series stay below ten megabytes. Of those older than ``_FULL_S`` every second one is kept: a chart of so long a time has
fewer points than that. A series that a scrape did not have is NaN there, and a gap in every line.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from itertools import compress

from headway_dashboard.analysis.queries.expressions import Expression, Metric
from headway_dashboard.analysis.queries.model import Grid, Series
from headway_dashboard.sources.evaluation import Column, Evaluator
from headway_dashboard.sources.exposition import SampleKey

_MAX_SERIES = 20_000
#: 64 MiB of doubles: a server with very many series, or a short interval, is remembered for a shorter time.
_MAX_VALUES = 8 * 1024 * 1024
_FULL_S = 300.0
#: The least distance of the old ones, as a part of the age at which a sample is not shown any more.
_OLD_STEP_RATIO = 0.5
#: Whether a scrape succeeded, under the name that Prometheus gives it.
UP: SampleKey = ("up", ())


class Ring:
    """The last ``keep_s`` seconds of scrapes. A sample older than ``stale_s`` is not shown any more.

    ``instance`` is the value of that label in each of its series, as Prometheus adds it to what it scrapes. Not
    thread-safe: its owner holds the lock.
    """

    def __init__(self, keep_s: float, stale_s: float, *, instance: str = "", max_values: int = _MAX_VALUES) -> None:
        self._keep_s = keep_s
        self._max_values = max_values
        self._instance = {"instance": instance} if instance else {}
        self._index: dict[SampleKey, int] = {}
        self._by_name: dict[str, list[tuple[Mapping[str, str], int]]] = defaultdict(list)
        self._frames: deque[tuple[float, array[float]]] = deque()
        self._old: deque[tuple[float, array[float]]] = deque()
        self._values = 0
        self._old_step_s = _OLD_STEP_RATIO * stale_s
        self._evaluator = Evaluator(self.columns, stale_s)

    def __len__(self) -> int:
        return len(self._old) + len(self._frames)

    def add(self, time_s: float, samples: Iterable[tuple[SampleKey, float]]) -> None:
        """Remember one scrape; forget those that became too old. A clock set back forgets what it contradicts."""
        for frames in (self._frames, self._old):
            while frames and frames[-1][0] >= time_s:
                self._values -= len(frames.pop()[1])
        self._evaluator.forget()
        if len(self._index) >= _MAX_SERIES and self._newest_values() < _MAX_SERIES // 2:
            self._forget_series()
        row = array("d", [math.nan]) * len(self._index)
        last = -1
        for key, value in samples:
            at = self._position(key)
            if at is None:
                continue
            last = max(last, at)
            if at == len(row):
                row.append(value)
            else:
                row[at] = value
        del row[last + 1 :]  # a failed scrape takes the room of one value
        self._frames.append((time_s, row))
        self._values += len(row)
        self._thin(time_s)
        while len(self) > 1 and (self._oldest()[0][0] < time_s - self._keep_s or self._values > self._max_values):
            self._values -= len(self._oldest().popleft()[1])

    def missed(self, time_s: float) -> None:
        """Remember a scrape that failed. A failure no later than the newest scrape is left out."""
        newest = self._frames or self._old
        if not newest or newest[-1][0] < time_s:
            self.add(time_s, [(UP, 0.0)])

    def _thin(self, time_s: float) -> None:
        """Move samples that are no longer recent to the old samples; drop a sample that follows another too closely."""
        while self._frames[0][0] < time_s - _FULL_S:
            frame = self._frames.popleft()
            if self._old and frame[0] - self._old[-1][0] < self._old_step_s:
                self._values -= len(frame[1])
            else:
                self._old.append(frame)

    def _oldest(self) -> deque[tuple[float, array[float]]]:
        return self._old or self._frames

    def _newest_values(self) -> int:
        """The number of series in the newest scrape."""
        newest = self._frames or self._old
        return sum(value == value for value in newest[-1][1]) if newest else 0

    def _forget_series(self) -> None:
        """Forget the series that no kept scrape has, such as those of servers that are gone: their places are free."""
        frames = [*self._old, *self._frames]
        held = sorted({at for _, row in frames for at, value in enumerate(row) if value == value})
        moved = {at: place for place, at in enumerate(held)}
        self._index = {key: moved[at] for key, at in self._index.items() if at in moved}
        self._by_name = defaultdict(list, {
            name: [(labels, moved[at]) for labels, at in series if at in moved]
            for name, series in self._by_name.items()
        })  # fmt: skip
        for _, row in frames:
            row[:] = array("d", [row[at] if at < len(row) else math.nan for at in held])
        self._values = sum(len(row) for _, row in frames)

    def _position(self, key: SampleKey) -> int | None:
        at = self._index.get(key)
        if at is None and len(self._index) < _MAX_SERIES:
            at = self._index[key] = len(self._index)
            self._by_name[key[0]].append(({**dict(key[1]), **self._instance}, at))
        return at

    def evaluate(self, expression: Expression, on: Grid) -> Series:
        """The expression's lines on a grid, from this ring alone."""
        return self._evaluator.evaluate(expression, on)

    def columns(self, metric: Metric, suffix: str, since_s: float) -> Iterable[Column]:
        """Each matching series as its times and values, without the scrapes that did not have it."""
        wanted = [
            (labels, at)
            for name in (metric.name, *metric.also)
            for labels, at in self._by_name.get(name + suffix, ())
            if metric.admits(labels)
        ]
        frames = [*self._old, *self._frames]
        frames = frames[bisect_left(frames, since_s, key=lambda frame: frame[0]) :]
        times_s = tuple(time_s for time_s, _ in frames)
        for labels, at in wanted:
            values = [row[at] if at < len(row) else math.nan for _, row in frames]
            known = [value == value for value in values]
            if known and all(known):
                yield labels, times_s, values
            elif any(known):
                yield labels, tuple(compress(times_s, known)), list(compress(values, known))
