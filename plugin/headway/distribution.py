"""The distribution of a measured quantity in plain numbers: a histogram, and the largest value of the last moments.

Not an instrument of the metrics library: an observation costs half a microsecond, takes no lock, and may come from
anywhere, also from a garbage collection that begins while that library holds its lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

#: The recent largest value is one of the last 60 to 120 seconds, so that a scrape each minute misses none.
PERIOD_S = 60.0


@dataclass(frozen=True, slots=True)
class DistributionReading:
    """A distribution at one moment: its buckets in Prometheus' form, the sum of all values, the largest of all, and the
    largest of the last moments; 0 where there was none.
    """

    buckets: list[tuple[str, float]]
    total: float
    largest: float
    recent_largest: float

    @property
    def count(self) -> int:
        """The number of values."""
        return int(self.buckets[-1][1])


class Distribution:
    """Counts of values of 0 and more. ``bounds``: the upper bounds of the buckets, ascending; one more has no bound.

    Times are those of any one clock. Reading changes nothing, so that any thread may read.
    """

    __slots__ = ("_before", "_bounds", "_counts", "_largest", "_recent", "_total", "_until_s")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = self._largest = 0.0
        self._recent = self._before = 0.0  # the largest of this period, and of the one before
        self._until_s = 0.0

    def add(self, value: float, now_s: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value
        if now_s >= self._until_s:
            follows = now_s < self._until_s + PERIOD_S
            self._before, self._recent = (self._recent if follows else 0.0), 0.0
            self._until_s = (self._until_s if follows else now_s) + PERIOD_S
        if value > self._recent:
            self._recent = value
            self._largest = max(self._largest, value)

    def read(self, now_s: float) -> DistributionReading:
        """The distribution as it is now."""
        names, so_far, buckets = [*map(str, self._bounds), "+Inf"], 0, []
        for name, count in zip(names, self._counts, strict=True):
            so_far += count
            buckets.append((name, float(so_far)))
        return DistributionReading(buckets, self._total, self._largest, self._recent_largest(now_s))

    def _recent_largest(self, now_s: float) -> float:
        if now_s < self._until_s:
            return max(self._recent, self._before)
        return self._recent if now_s < self._until_s + PERIOD_S else 0.0
