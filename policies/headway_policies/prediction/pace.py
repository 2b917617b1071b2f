"""How far the paces of single requests lie apart: each one's mean time between tokens, from its first to its last.

A step's time is shared by all that run, but a request meets only the prompts that are computed during its own answer.
So requests under one limit differ, and a limit whose mean step meets an objective exactly breaks it for half of them.
"""

from __future__ import annotations

import math

_MEMORY = 64
_MIN_SAMPLES = 16
_MIN_TOKENS = 8  # the pace of a shorter answer is that of two or three steps


class PaceSpread:
    """The coefficient of variation of the paces of about the last 64 requests of one sequence."""

    def __init__(self) -> None:
        self._samples = 0
        self._mean_s = self._variance = 0.0

    def ended(self, tokens: int, streamed_s: float) -> None:
        """Learn from an answer of so many tokens, the last of which came so long after the first."""
        if tokens < _MIN_TOKENS or streamed_s <= 0:
            return
        self._samples = min(self._samples + 1, _MEMORY)
        miss_s = streamed_s / (tokens - 1) - self._mean_s
        weight = 1 / self._samples
        self._mean_s += weight * miss_s
        self._variance = (1 - weight) * (self._variance + weight * miss_s**2)

    @property
    def ratio(self) -> float:
        """The standard deviation as a share of the mean; 0 while too few have ended."""
        return math.sqrt(self._variance) / self._mean_s if self._samples >= _MIN_SAMPLES else 0.0
