"""Has the engine stopped?

Every engine step is a sign of life, whatever it computed, and so is the answer to a question that the engine answers
between two steps. So a long prefill in chunks is no hang, a step that takes longer than ``hang_after_s`` is one, and an
idle engine is watched as well as a busy one.

A watch that was itself not looked at for a while (a process that was stopped, a loop that was held up) has seen nothing
and accuses nobody: it begins anew.
"""

from __future__ import annotations


class Watchdog:
    """Knows when it last heard of the engine."""

    def __init__(self, now_s: float) -> None:
        self._heard_s = self._looked_s = now_s

    def heard(self, now_s: float) -> None:
        """The engine gave a sign of life."""
        self._heard_s = now_s

    def silent_s(self, now_s: float) -> float:
        """For how long it has given none."""
        return now_s - self._heard_s

    def hung(self, now_s: float, hang_after_s: float) -> bool:
        """Whether it has been silent for too long. To be asked several times within ``hang_after_s``."""
        if now_s - self._looked_s > hang_after_s / 2:
            self._heard_s = now_s
        self._looked_s = now_s
        return self.silent_s(now_s) > hang_after_s
