"""A noisy binary search for the most seats within the SLO: Algorithm 2 of arXiv 2503.05248 (Pang, Li, Wang 2025).

Two marks, low and high; the limit is their middle. With tau the mean time between tokens, b the mean number running, D
the set point and eps half the band:

    tau > D + eps   high = max(b, low + alpha)         low = max(low - delta, min_seats)
    tau < D - eps   low = min(b, high - alpha)         high = min(high + delta, max_seats + alpha)
    else            high = min(b + alpha / 2, max_seats)    low = max(b - alpha / 2, min_seats)

``alpha`` keeps the marks apart, ``delta`` moves them on, so the search never ends and follows a change. The paper's
constants are fixed (alpha 20, delta 5): with them no limit under 11 can be reached. Here alpha is a quarter of b, at
least 2, and delta half of alpha; and max_seats in the second line is raised by alpha, or the middle would stay half an
alpha short of it for ever. A published implementation has max for the min there: it jumps upwards.
"""

from __future__ import annotations

from collections.abc import Mapping

from headway_policies.limits.learnt import usable
from headway_policies.limits.limit import Interval, LimitSettings

_BAND_RATIO = 0.04
_MAX_SEATS = 65_536


class SlaSearch:
    """Remembers the two marks; starts around the preset's fixed number."""

    def __init__(self, settings: LimitSettings, fixed: int) -> None:
        self._settings = settings
        self._min_seats = float(settings.min_seats)
        self._max_seats = float(settings.max_seats or _MAX_SEATS)
        self._low = self._high = float(fixed)

    def learnt(self) -> Mapping[str, float]:
        """The two marks."""
        return {"low": self._low, "high": self._high}

    def recall(self, learnt: Mapping[str, float]) -> None:
        """Go on between these marks."""
        marks = usable(learnt, ("low", "high"))
        if marks is not None and marks[0] <= marks[1]:
            self._low, self._high = max(marks[0], self._min_seats), min(marks[1], self._max_seats)

    def propose(self, seen: Interval, allowed: int) -> int:
        """The middle of the two marks after this interval."""
        tau_s, running = seen.inter_token_s, seen.running
        if tau_s is None:
            return allowed
        set_point_s = self._settings.set_point_s(seen.pace_spread_ratio, seen.unloaded_token_s)
        alpha = max(2.0, running / 4)
        delta = alpha / 2
        if tau_s > set_point_s * (1 + _BAND_RATIO):
            self._high = max(running, self._low + alpha)
            self._low = max(self._low - delta, self._min_seats)
        elif tau_s < set_point_s * (1 - _BAND_RATIO):
            self._low = min(running, self._high - alpha)
            self._high = min(self._high + delta, self._max_seats + alpha)
        else:
            self._high = min(running + alpha / 2, self._max_seats)
            self._low = max(running - alpha / 2, self._min_seats)
        return int((self._low + self._high) / 2)
