"""The gain of twice the seats: how many more tokens a second they would give, from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, isfinite

from headway_dashboard.analysis.queries.model import Point

_MIN_PAIRS = 8
_MIN_SPREAD = 1.5


def doubling_gain(batches: Sequence[Point], tokens_per_s: Sequence[Point]) -> float | None:
    """The gain in tokens a second from twice the newest batch, as a share; None where it cannot be told.

    From what has been measured together: a step takes ``batch / tokens_per_s``, fitted by a straight line over batches.
    A line needs batches that differ. Known weak spot: while the engine is idle part of the time its steps look longer.
    """
    pairs = [
        (batch, batch / rate)
        for batch, rate in zip(batches, tokens_per_s, strict=False)
        if batch and rate and isfinite(batch) and isfinite(rate)
    ]
    if len(pairs) < _MIN_PAIRS or max(pairs)[0] < _MIN_SPREAD * min(pairs)[0]:
        return None
    mean_batch = fsum(batch for batch, _ in pairs) / len(pairs)
    mean_s = fsum(step_s for _, step_s in pairs) / len(pairs)
    spread = fsum((batch - mean_batch) ** 2 for batch, _ in pairs)
    slope_s = max(0.0, fsum((batch - mean_batch) * (step_s - mean_s) for batch, step_s in pairs) / spread)
    base_s = max(0.0, mean_s - slope_s * mean_batch)
    now = pairs[-1][0]
    return base_s / (base_s + 2 * slope_s * now)
