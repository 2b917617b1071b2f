"""Pauses of the process by Python's garbage collector, by generation and length.

Plain numbers, not an instrument of the metrics library: a collection may begin anywhere, also inside that library
while it holds the lock that an observation takes.
"""

from __future__ import annotations

import gc
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

#: Upper bounds of the histogram, in seconds.
BUCKETS_S = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
GENERATIONS = 3


@dataclass(slots=True)
class Distribution:
    """Pauses of one generation, by length; the last count is of those beyond all bounds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    total_s: float = 0.0
    longest_s: float = 0.0

    def add(self, pause_s: float) -> None:
        """Count one pause."""
        self.counts[bisect_left(BUCKETS_S, pause_s)] += 1
        self.total_s += pause_s
        self.longest_s = max(self.longest_s, pause_s)

    def copy(self) -> Distribution:
        """The distribution as it is now."""
        return Distribution(list(self.counts), self.total_s, self.longest_s)

    def cumulative(self) -> list[tuple[str, float]]:
        """The buckets in Prometheus' form: how many pauses were at most that long."""
        names, so_far, buckets = [*map(str, BUCKETS_S), "+Inf"], 0, []
        for name, count in zip(names, self.counts, strict=True):
            so_far += count
            buckets.append((name, float(so_far)))
        return buckets


class GcPauses:
    """The pauses of each generation, counted by the collector's callback."""

    def __init__(self, clock_s: Callable[[], float] = perf_counter) -> None:
        self.generations = [Distribution() for _ in range(GENERATIONS)]
        self._clock_s = clock_s
        self._began_s: float | None = None

    def watch(self) -> None:
        """Count from now on."""
        if self._on_collection not in gc.callbacks:
            gc.callbacks.append(self._on_collection)

    def unwatch(self) -> None:
        """Stop counting."""
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)
        self._began_s = None

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began_s = self._clock_s()
        elif self._began_s is not None:
            self.generations[min(info["generation"], GENERATIONS - 1)].add(self._clock_s() - self._began_s)
            self._began_s = None
