"""Saturation of the GPU: whether more sequences still give more tokens.

A GPU that computes all the time is not yet saturated: its utilisation (NVML's) is the share of time in which any kernel
ran, and reaches 100 % with a single sequence. So it counts only together with latency: after a growth, the time between
tokens has grown about as much as the number of sequences, and the tokens a second have not. From then on, no growth
until the GPU has idle time again or tokens come faster than they did then.

Without a reading of the GPU nothing is ever saturated. Known weak spot: the reading is some seconds old.
"""

from __future__ import annotations

from headway_policies.limits.limit import Interval

_BUSY_RATIO = 0.95
_GREW_RATIO = 1.03  # less is noise
_GAIN_RATIO = 1.01
_FASTER_RATIO = 0.9


class Saturation:
    """Remembers the last interval with fewer sequences, and the time between tokens at which growth gave nothing."""

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None
        self._knee_s: float | None = None

    @property
    def saturated(self) -> bool:
        """Whether more sequences would give no more tokens."""
        return self._knee_s is not None

    def update(self, seen: Interval) -> None:
        """Learn from an interval."""
        inter_token_s, busy = seen.inter_token_s, seen.gpu_busy_ratio
        if busy is None or busy < _BUSY_RATIO:
            self._before = self._knee_s = None
        if inter_token_s is None or seen.running <= 0 or busy is None:
            return
        if self._knee_s is not None and inter_token_s < _FASTER_RATIO * self._knee_s:
            self._before = self._knee_s = None
        if busy < _BUSY_RATIO:
            return
        before, now = self._before, (seen.running, inter_token_s)
        if before is None or now[0] < before[0]:
            self._before = now
        elif now[0] > _GREW_RATIO * before[0]:
            gained = now[0] / now[1] > _GAIN_RATIO * before[0] / before[1]
            slower = now[1] > _GREW_RATIO * before[1]
            self._before = now
            if slower and not gained:
                self._knee_s = self._knee_s or inter_token_s
