"""Pauses of the process by Python's garbage collector, by generation and length."""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import perf_counter

from headway.distribution import Distribution, DistributionReading

#: Upper bounds of the histogram, in seconds.
BUCKETS_S = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5)
GENERATIONS = 3


class GcPauses:
    """The pauses of each generation, counted by the collector's callback."""

    def __init__(self, clock_s: Callable[[], float] = perf_counter) -> None:
        self.generations = [Distribution(BUCKETS_S) for _ in range(GENERATIONS)]
        self._clock_s = clock_s
        self._began_s: float | None = None

    def read(self) -> tuple[DistributionReading, ...]:
        """The pauses of each generation up to now."""
        now_s = self._clock_s()
        return tuple(generation.read(now_s) for generation in self.generations)

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
            now_s = self._clock_s()
            self.generations[min(info["generation"], GENERATIONS - 1)].add(now_s - self._began_s, now_s)
            self._began_s = None
