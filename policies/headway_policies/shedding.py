"""Whom to turn away, and when may they come back?

A refusal is honest when it names the time in which the line ahead will be gone: waiting divided by the rate at which
tickets have been leaving the line. The answer is spread by a fixed low-discrepancy sequence, so that clients
refused together do not return together, and bounded to 1-30 s (RFC 9110, section 10.2.3, wants whole seconds).
"""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict, Field

_GOLDEN = 0.6180339887498949
_MEMORY_S = 10.0


class Queue(BaseModel):
    """``[queue]`` of a preset: the bounds over all classes, and whom to turn away beyond them.

    ``evict``: a newcomer of a more urgent class pushes out the worst waiting one when there is no room.
    ``refuse_infeasible``: refuse at once who would, by the predicted wait, run out of time in the queue.
    ``shed_unreachable``: drop at dispatch who can no longer get a first token in time.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    max_waiting: int = Field(ge=0, le=1_000_000)
    max_waiting_tokens: int | None = Field(default=None, ge=0)
    max_waiting_bytes: int | None = Field(default=None, ge=0)
    evict: bool = True
    refuse_infeasible: bool = True
    shed_unreachable: bool = True


class DrainRate:
    """Departures from the line in tickets a second, forgotten exponentially over about ten seconds."""

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
