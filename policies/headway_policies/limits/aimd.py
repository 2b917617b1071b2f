"""Additive increase, multiplicative decrease of the seats (Chiu and Jain 1989; Netflix's AIMDLimit).

The input is the mean time between tokens. Under the band around the set point: 1 seat more, an eighth more while far
under. Over the band: cut the seats taken to the set point's share of the time seen, by at least a twentieth and at most
half. The cut is of the seats taken, so no cut is made twice while the seats of the last one have yet to be freed.

Weak spot: it only learns by overshooting, so it oscillates between the band's edges (2-5 % of goodput) and needs
several decisions after a sudden change.
"""

from __future__ import annotations

from headway_policies.limits.limit import Interval, LimitSettings

_BAND_RATIO = 0.06
_FAR_RATIO = 0.75


class Aimd:
    """Proposes from the current limit and the last interval; it has no state."""

    def __init__(self, settings: LimitSettings, fixed: int) -> None:
        self._settings = settings

    def propose(self, seen: Interval, allowed: int) -> int:
        """A step up or down from ``allowed``, or no step."""
        if seen.inter_token_s is None:
            return allowed
        ratio = seen.inter_token_s / self._settings.set_point_s(seen.pace_spread_ratio, seen.unloaded_token_s)
        if ratio > 1 + _BAND_RATIO:
            return min(allowed, int(seen.seats_taken * max(0.5, min(0.95, 1 / ratio))))
        if ratio < 1 - _BAND_RATIO:
            return allowed + (max(1, allowed // 8) if ratio < _FAR_RATIO else 1)
        return allowed
