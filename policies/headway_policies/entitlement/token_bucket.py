"""Token bucket: a rate with a burst (ATM's generic cell rate algorithm, ITU-T I.371, in its continuous form).

A bucket starts full and is refilled continuously. Bound: what is taken over any interval of t seconds, less what is
given back in it, is at most ``rate_per_s * t + burst``. Every call is O(1).
"""

from __future__ import annotations

from math import isfinite

#: The size of a bucket unless it is stated: the refill of so many seconds.
_BURST_S = 60.0
#: The most that rounding may lack of an amount that was waited for, in parts of the burst.
_ROUNDING = 1e-9


class TokenBucket:
    """A bucket of ``burst`` units, refilled with ``rate_per_s``. Raises ValueError unless both are above 0 and finite.

    ``now_s`` must come from one clock; where it goes backwards, nothing is refilled.
    """

    __slots__ = ("_level", "_seen_s", "burst", "rate_per_s")

    def __init__(self, rate_per_s: float, burst: float | None = None) -> None:
        self.rate_per_s = rate_per_s
        self.burst = rate_per_s * _BURST_S if burst is None else burst
        _check(self.rate_per_s, self.burst)
        self._level = self.burst
        self._seen_s: float | None = None

    def charge(self, amount: float) -> None:
        """Take the amount in any case: a shortfall becomes a debt. The time is that of the last other call."""
        self._level -= amount

    def wait_s(self, amount: float, now_s: float) -> float:
        """The seconds until this amount would fit, 0 where it fits now; infinite where it is larger than the burst."""
        short = amount - self.remaining(now_s)
        if short <= _ROUNDING * self.burst:
            return 0.0
        return short / self.rate_per_s if amount <= self.burst else float("inf")

    def give_back(self, amount: float, now_s: float) -> None:
        """Return the unused part of an amount. A negative part was used in addition, and becomes a debt."""
        self._level = min(self.burst, self.remaining(now_s) + amount)

    def remaining(self, now_s: float) -> float:
        """The content of the bucket now; negative: a debt."""
        if self._seen_s is not None and now_s > self._seen_s:
            self._level = min(self.burst, self._level + (now_s - self._seen_s) * self.rate_per_s)
        self._seen_s = now_s
        return self._level

    def full_in_s(self, now_s: float) -> float:
        """The seconds until the bucket is full, if nothing is taken meanwhile."""
        return (self.burst - self.remaining(now_s)) / self.rate_per_s

    def change(self, rate_per_s: float, burst: float, now_s: float) -> None:
        """Set another rate and burst; the used part of the old burst counts against the new burst. Raises ValueError.

        A smaller burst makes no debt: where more was used than it has, the bucket is empty, and what was owed is owed.
        """
        _check(rate_per_s, burst)
        level = self.remaining(now_s)
        self._level = max(burst - (self.burst - level), min(level, 0.0))
        self.rate_per_s, self.burst = rate_per_s, burst


def _check(rate_per_s: float, burst: float) -> None:
    if not (rate_per_s > 0 and burst > 0 and isfinite(rate_per_s) and isfinite(burst)):
        raise ValueError(f"a bucket needs a rate and a burst above 0, not {rate_per_s} and {burst}")
