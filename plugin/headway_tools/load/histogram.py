"""A histogram of the server's metrics, and the quantiles that it shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf


@dataclass(frozen=True, slots=True)
class Histogram:
    """Cumulative counts by upper bound, as in the exposition: ``{"0.5": 3, "+Inf": 4}``."""

    buckets: Mapping[str, int] = field(default_factory=dict)

    def since(self, earlier: Histogram) -> Histogram:
        """The observations since an earlier scrape."""
        return Histogram({bound: count - earlier.buckets.get(bound, 0) for bound, count in self.buckets.items()})

    @property
    def count(self) -> int:
        """The number of observations."""
        return max(self.buckets.values(), default=0)

    def quantile(self, ratio: float) -> float | None:
        """The value that ``ratio`` of the observations do not exceed; None without observations.

        Interpolated inside its bucket, as by ``histogram_quantile`` of Prometheus; at most the last finite bound.
        """
        ordered = sorted((float(bound), count) for bound, count in self.buckets.items())
        if not ordered or ordered[-1][1] <= 0:
            return None
        wanted = ratio * ordered[-1][1]
        lower, below = 0.0, 0
        for bound, count in ordered:
            if count >= wanted and count > below:
                return lower if bound == inf else lower + (bound - lower) * (wanted - below) / (count - below)
            lower, below = bound, count
        return lower
