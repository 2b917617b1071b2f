"""The ``Retry-After`` of a refusal, from the rate at which tickets leave the queue.

The advice is the expected time until the present queue is empty: waiting tickets divided by the rate at which tickets
have been leaving. A fixed low-discrepancy sequence spreads it, so that clients refused together do not return together;
it is bounded to 1-30 s, in whole seconds (RFC 9110, section 10.2.3).
"""

from __future__ import annotations

import math

_GOLDEN = 0.6180339887498949
_MEMORY_S = 10.0
_MIN_PER_S = 1e-9


class DrainRate:
    """The rate at which tickets leave the queue, per second, forgotten exponentially over about ten seconds."""

    def __init__(self) -> None:
        self._weight = 0.0
        self._since_s = 0.0
        self._started_s: float | None = None
        self._spread = 0.5

    def departed(self, now_s: float) -> None:
        """One ticket left the queue for the engine."""
        idle_s = now_s - self._since_s
        self._weight = self._weight * math.exp(-(idle_s if idle_s > 0.0 else 0.0) / _MEMORY_S) + 1.0
        self._since_s = now_s
        if self._started_s is None:
            self._started_s = now_s

    def per_s(self, now_s: float) -> float:
        """Tickets a second; 0 while nothing has left yet."""
        if self._started_s is None:
            return 0.0
        open_s, idle_s = now_s - self._started_s, now_s - self._since_s
        horizon_s = _MEMORY_S * -math.expm1(-(open_s if open_s > 1.0 else 1.0) / _MEMORY_S)
        return self._weight * math.exp(-(idle_s if idle_s > 0.0 else 0.0) / _MEMORY_S) / horizon_s

    def retry_after_s(self, waiting: int, now_s: float) -> int:
        """Whole seconds, 1 to 30, after which a refused client may try again with some hope."""
        expected_s = 1.0
        if self._started_s is not None:
            per_s = self.per_s(now_s)
            expected_s = waiting / (per_s if per_s > _MIN_PER_S else _MIN_PER_S)
        self._spread = (self._spread + _GOLDEN) % 1.0
        advice_s = math.ceil(expected_s * (0.75 + 0.5 * self._spread))
        return advice_s if 1 <= advice_s <= 30 else 1 if advice_s < 1 else 30
