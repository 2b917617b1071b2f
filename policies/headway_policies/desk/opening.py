"""How much of the limit is open?

The limit says how many seats are right for a healthy engine. Less is open while its memory is short, after it died for
lack of memory, and for a while after a warm-up, when seats are opened one after another. The least of these counts;
one seat is always open.
"""

from __future__ import annotations

from enum import StrEnum

from headway_policies.engine import Ramp


class CapReason(StrEnum):
    """Who may hold seats back."""

    RECOVERY = "recovery"
    MEMORY = "memory"


class Opening:
    """The shares that are open, and the ramp that is being climbed."""

    def __init__(self) -> None:
        self._ratios = dict.fromkeys(CapReason, 1.0)
        self._opened_s = 0.0
        self.moving = False  # whether time alone opens seats

    def hold(self, who: CapReason, ratio: float) -> None:
        """Only this share, as far as this one is concerned."""
        self._ratios[who] = ratio

    def begin(self, now_s: float) -> None:
        """The engine is warm: from now on seats open one after another."""
        self._opened_s, self.moving = now_s, True

    def seats(self, limit: int, ramp: Ramp, now_s: float) -> int:
        """The seats that are open, of ``limit``."""
        held = max(1, int(limit * min(self._ratios.values())))
        if self.moving and now_s >= self._opened_s + ramp.ramp_s:
            self.moving = False
        if not self.moving:
            return held
        return ramp.seats(held, self._opened_s, now_s)

    def due_s(self, limit: int, ramp: Ramp, now_s: float) -> float | None:
        """When time opens the next seat; None when it will not."""
        if not self.moving:
            return None
        return ramp.due_s(max(1, int(limit * min(self._ratios.values()))), self._opened_s, now_s)
