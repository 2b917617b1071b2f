"""A sketch of quantiles in bounded memory, with a relative error of at most ``ERROR_RATIO``.

Counts in buckets whose bounds grow by a constant factor (DDSketch: Masson, Rim, Lee, VLDB 2019). Values below or above
the range count in its first or last bucket.
"""

from __future__ import annotations

import math
from collections import Counter

from headway_simulator.report.summary import Spread

ERROR_RATIO = 0.01
_GAMMA = (1 + ERROR_RATIO) / (1 - ERROR_RATIO)
_LOG_GAMMA = math.log(_GAMMA)
_LEAST_S, _MOST_S = 1e-6, 1e5


class Quantiles:
    """Durations in seconds."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._sum_s = 0.0

    @property
    def count(self) -> int:
        """The number of values."""
        return self._counts.total()

    def add(self, value_s: float) -> None:
        """Add one value."""
        self._counts[math.ceil(math.log(min(max(value_s, _LEAST_S), _MOST_S)) / _LOG_GAMMA)] += 1
        self._sum_s += value_s

    def merge(self, other: Quantiles) -> None:
        """Add all of another sketch."""
        self._counts.update(other._counts)
        self._sum_s += other._sum_s

    def quantile(self, ratio: float) -> float | None:
        """The value of the nearest rank; None where nothing was added."""
        rank = max(math.ceil(ratio * self.count), 1)
        for place in sorted(self._counts):
            rank -= self._counts[place]
            if rank <= 0:
                return 2 * math.exp(place * _LOG_GAMMA) / (_GAMMA + 1)
        return None

    def spread(self) -> Spread:
        """Mean and percentiles."""
        mean_s = self._sum_s / self.count if self.count else None
        return Spread(mean_s, self.quantile(0.5), self.quantile(0.95), self.quantile(0.99))
