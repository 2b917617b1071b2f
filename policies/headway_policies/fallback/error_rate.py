"""The share of recent requests that failed.

The share is computed from two counters, read at any times: the share is that of the difference between now and the
start of the window. With fewer than ``min_ended`` ended requests it is 0: two failures out of three prove nothing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

_SAMPLES = 64  # kept for a window, however often it is read


@dataclass(frozen=True, slots=True)
class _Seen:
    at_s: float
    failed: int
    ended: int


class ErrorRate:
    """A sliding window over the counts of failed and of all ended requests."""

    def __init__(self) -> None:
        self._seen: deque[_Seen] = deque()

    def update(self, failed: int, ended: int, now_s: float, *, window_s: float, min_ended: int) -> float:
        """The share of failures over the last ``window_s``, 0 to 1; 0 while too few have ended."""
        seen = self._seen
        if not seen or now_s - seen[-1].at_s >= window_s / _SAMPLES:
            seen.append(_Seen(now_s, failed, ended))
        while len(seen) > 1 and seen[1].at_s <= now_s - window_s:
            seen.popleft()
        first = seen[0]
        ended_since = ended - first.ended
        return (failed - first.failed) / ended_since if ended_since >= min_ended else 0.0
