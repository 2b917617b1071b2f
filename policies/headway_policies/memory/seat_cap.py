"""The share of the limit that may be used while memory is short.

The share falls after each ``lower_after_s`` of uninterrupted pressure, down to ``min_ratio``, and grows by a tenth
after each ``raise_after_s`` without pressure. Between the two thresholds it does not change (hysteresis). The cap is a
share of the limit, so the limit policy goes on unchanged; at least one seat stays open, whatever the share.
"""

from __future__ import annotations

from headway_policies.memory.settings import Memory

_INCREASE_RATIO = 0.1


class SeatCap:
    """The share in force; 1 is the whole limit."""

    def __init__(self) -> None:
        self.ratio = 1.0
        self._falling = False
        self._since_s: float | None = None

    def update(self, settings: Memory, now_s: float, *, pressed: bool, quiet: bool) -> float:
        """Lower or raise the share where its condition has lasted long enough; returns the share from now on."""
        self.ratio = max(self.ratio, settings.min_ratio)
        falling = pressed and self.ratio > settings.min_ratio
        rising = quiet and not pressed and self.ratio < 1.0
        if not (falling or rising):
            self._since_s = None
            return self.ratio
        if self._since_s is None or falling != self._falling:
            self._since_s, self._falling = now_s, falling
        if now_s - self._since_s >= (settings.lower_after_s if falling else settings.raise_after_s):
            self.ratio = self._lower(settings) if falling else min(1.0, round(self.ratio + _INCREASE_RATIO, 6))
            self._since_s = now_s  # the next move needs a time of its own
        return self.ratio

    def _lower(self, settings: Memory) -> float:
        return max(settings.min_ratio, round(self.ratio * settings.decrease_ratio, 6))
