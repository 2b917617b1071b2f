"""The spread of requests' paces above their mean; a pace is the mean time between tokens, first to last.

A step's time is shared by all that run, but a request meets only the prompts that are computed during its own answer.
So requests under one limit differ, and a limit whose mean step meets an objective exactly breaks it for half of them.

Only the slower half is looked at (twice the upper semivariance, which is the variance where both halves are alike). A
limit that falls makes every request quicker than the mean so far. By the variance that would be a growing spread, which
lowers the limit again; by the slower half it is none. A limit that grows meets a spread that holds it back.
"""

from __future__ import annotations

import math

_MEMORY = 32
_MEAN_MEMORY = 16  # follows another limit within seconds
_MIN_SAMPLES = 16
_MIN_TOKENS = 8  # the pace of a shorter answer is that of two or three steps


class PaceSpread:
    """The coefficient of variation of the paces of about the last 32 requests of one sequence, by the slower half."""

    def __init__(self) -> None:
        self._samples = 0
        self._mean_s = self._variance = 0.0

    def ended(self, tokens: int, streamed_s: float) -> None:
        """Learn from an answer of so many tokens, the last of which came so long after the first."""
        if tokens < _MIN_TOKENS or streamed_s <= 0:
            return
        self._samples += 1
        miss_s = streamed_s / (tokens - 1) - self._mean_s
        self._mean_s += miss_s / min(self._samples, _MEAN_MEMORY)
        if self._samples > 1:  # the first one is the mean
            above = 2 * max(0.0, miss_s) ** 2
            self._variance += (above - self._variance) / _MEMORY  # from 0: a few slow ones at the start are no spread

    def forget(self) -> None:
        """The paces so far are those of another limit."""
        self._samples = 0
        self._mean_s = self._variance = 0.0

    @property
    def ratio(self) -> float:
        """The standard deviation as a share of the mean; 0 while too few have ended."""
        return math.sqrt(self._variance) / self._mean_s if self._samples >= _MIN_SAMPLES else 0.0
