"""The ``Retry-After`` of a refusal, from the rate at which tickets leave the queue.

The advice is the expected time until the present queue is empty: waiting tickets divided by the rate at which tickets
have been leaving. A fixed low-discrepancy sequence spreads it, so that clients refused together do not return together;
it is bounded to 1-30 s, in whole seconds (RFC 9110, section 10.2.3).
"""

from __future__ import annotations

import math

_GOLDEN = 0.6180339887498949
_MEMORY_S = 10.0


class DrainRate:
    """Dispatcher from the line in tickets a second, forgotten exponentially over about ten seconds."""

    def __init__(self) -> None:
        self._weight = 0.0
        self._since_s = 0.0
        self._started_s: float | None = None
        self._spread = 0.5

    def departed(self, now_s: float) -> None:
        """One ticket left the line for the engine."""
        self._weight = self._decayed(now_s) + 1.0
        self._since_s = now_s
        if self._started_s is None:
            self._started_s = now_s

    def per_s(self, now_s: float) -> float:
        """Tickets a second; 0 while nothing has left yet."""
        if self._started_s is None:
            return 0.0
        horizon_s = _MEMORY_S * -math.expm1(-max(now_s - self._started_s, 1.0) / _MEMORY_S)
        return self._decayed(now_s) / horizon_s

    def retry_after_s(self, waiting: int, now_s: float) -> int:
        """Whole seconds, 1 to 30, after which a refused client may try again with some hope."""
        expected_s = 1.0 if self._started_s is None else waiting / max(self.per_s(now_s), 1e-9)
        self._spread = (self._spread + _GOLDEN) % 1.0
        return max(1, min(30, math.ceil(expected_s * (0.75 + 0.5 * self._spread))))

    def _decayed(self, now_s: float) -> float:
        return self._weight * math.exp(-max(now_s - self._since_s, 0.0) / _MEMORY_S)
