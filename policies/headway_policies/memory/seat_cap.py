"""Which share of the limit may be used while memory is short?

A fall after each ``lower_after_s`` of pressure without a break, down to ``min_ratio``; a tenth more after each
``raise_after_s`` of quiet. Between the two thresholds nothing moves: that is the hysteresis. A share is of the limit,
so the limit policy goes on beneath it; a gate gives one seat at the least, whatever the share.
"""

from __future__ import annotations

from typing import Protocol

_EASE_RATIO = 0.1


class Terms(Protocol):
    """How far, and how fast."""

    @property
    def lower_after_s(self) -> float:
        """How long pressure must last before seats fall."""
        ...

    @property
    def decrease_ratio(self) -> float:
        """The part that a fall leaves."""
        ...

    @property
    def min_ratio(self) -> float:
        """The smallest share."""
        ...

    @property
    def raise_after_s(self) -> float:
        """How long quiet must last before seats come back."""
        ...


class SeatCap:
    """The share in force; 1 is the whole limit."""

    def __init__(self) -> None:
        self.ratio = 1.0
        self._falling = False
        self._since_s: float | None = None

    def update(self, terms: Terms, now_s: float, *, pressed: bool, quiet: bool) -> float:
        """Go down or up when it has been time for it for long enough; returns the share from now on."""
        falling = pressed and self.ratio > terms.min_ratio
        rising = quiet and not pressed and self.ratio < 1.0
        if not (falling or rising):
            self._since_s = None
            return self.ratio
        if self._since_s is None or falling != self._falling:
            self._since_s, self._falling = now_s, falling
        if now_s - self._since_s >= (terms.lower_after_s if falling else terms.raise_after_s):
            self.ratio = self._lower(terms) if falling else min(1.0, round(self.ratio + _EASE_RATIO, 6))
            self._since_s = now_s  # the next move needs a time of its own
        return self.ratio

    def _lower(self, terms: Terms) -> float:
        return max(terms.min_ratio, round(self.ratio * terms.decrease_ratio, 6))
