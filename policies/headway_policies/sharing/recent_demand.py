"""The demand that sharing goes by: it rises at once, and falls only when it was lower for a while."""

from __future__ import annotations

from collections import deque


class RecentDemand:
    """The largest demand in a window. ``now_s`` never runs backwards; an update costs O(1) on average."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, float]] = deque()  # falling numbers, each the most since the one before it

    def update(self, demand: float, now_s: float, within_s: float) -> float:
        """The largest demand of the last ``within_s`` seconds, this demand included."""
        kept = self._kept
        while kept and kept[0][0] <= now_s - within_s:
            kept.popleft()
        while kept and kept[-1][1] <= demand:
            kept.pop()
        kept.append((now_s, demand))
        return kept[0][1]
