"""Which share of what ended lately has failed?

Read from two counts that only grow, at whatever times somebody looks: the share is that of the difference between now
and the start of the window. Fewer than ``least`` endings are no share: two failures out of three prove nothing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

_LOOKS = 64  # a window is told in so many parts, however often somebody looks


@dataclass(frozen=True, slots=True)
class _Seen:
    at_s: float
    failed: int
    ended: int


class ErrorRate:
    """A sliding window over the counts of what failed, and of what ended in all."""

    def __init__(self) -> None:
        self._seen: deque[_Seen] = deque()

    def update(self, failed: int, ended: int, now_s: float, *, window_s: float, least: int) -> float:
        """The share of failures over the last ``window_s``, 0 to 1; 0 while too little has ended."""
        seen = self._seen
        if not seen or now_s - seen[-1].at_s >= window_s / _LOOKS:
            seen.append(_Seen(now_s, failed, ended))
        while len(seen) > 1 and seen[1].at_s <= now_s - window_s:
            seen.popleft()
        first = seen[0]
        more = ended - first.ended
        return (failed - first.failed) / more if more >= least else 0.0
