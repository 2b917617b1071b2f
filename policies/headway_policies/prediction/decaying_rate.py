"""A rate that is forgotten exponentially: each event counts with a weight that falls by e over ``memory_s``."""

from __future__ import annotations

import math


def share_left(age_s: float, memory_s: float) -> float:
    """The share of its first weight that an event of this age has left; all of it where the clock went back."""
    return math.exp(-(age_s if age_s > 0.0 else 0.0) / memory_s)


class DecayingRate:
    """Events per second over about the last ``memory_s`` seconds. Every call is O(1)."""

    __slots__ = ("_memory_s", "_since_s", "_weight")

    def __init__(self, memory_s: float, since_s: float = 0.0) -> None:
        self._memory_s = memory_s
        self._weight = 0.0
        self._since_s = since_s

    def add(self, count: float, now_s: float) -> None:
        """Count this many events."""
        self._weight = self._left(now_s) + count
        self._since_s = now_s

    def per_s(self, now_s: float) -> float:
        """Events per second now."""
        return self._left(now_s) / self._memory_s

    def _left(self, now_s: float) -> float:
        return self._weight * share_left(now_s - self._since_s, self._memory_s)
