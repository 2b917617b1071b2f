"""A histogram as a server counts it: cumulative buckets, a sum and a count."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

DURATIONS_S = (0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 30.0, 60.0,
               120.0, 300.0, 600.0)  # fmt: skip
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
PAUSES_S = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)


class Histogram:
    """Counts observations by the bucket they fall into. ``longest`` is the largest one since it was last taken."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0.0] * (len(bounds) + 1)
        self._longest = 0.0
        self.total = 0.0
        self.count = 0.0

    def observe(self, value: float, times: float = 1.0) -> None:
        """Count an observation, so many times."""
        self._counts[bisect_left(self._bounds, value)] += times
        self._longest = max(self._longest, value)
        self.total += value * times
        self.count += times

    def buckets(self) -> Iterator[tuple[str, float]]:
        """Each bound as it is written, with the observations at or below it."""
        below = 0.0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            below += count
            yield bound, below

    def take_longest(self) -> float:
        """The largest observation since the last call; 0 where there was none."""
        longest, self._longest = self._longest, 0.0
        return longest
