"""The knee of a curve: beyond it, more of one thing brings ever less of the other."""

from __future__ import annotations

from collections.abc import Sequence

RULE = "the point with the largest distance to the chord (Kneedle; Satopaa et al., ICDCSW 2011)"


def knee_of(costs: Sequence[float], gains: Sequence[float]) -> int | None:
    """The place of the knee of a curve of gains over costs, in the order of its points; None where it has none.

    Both are scaled to the unit square, in which the vertical distance to the chord from the first point to the last is
    proportional to the perpendicular one. Fewer than three points, a straight line, or one that bends the other way
    have no knee. Of Kneedle this is the rule itself, without its smoothing and without its threshold for later points.
    """
    if len(costs) < 3:
        return None
    wide, high = costs[-1] - costs[0], gains[-1] - gains[0]
    if wide <= 0 or high <= 0:
        return None
    above = [(gain - gains[0]) / high - (cost - costs[0]) / wide for cost, gain in zip(costs, gains, strict=True)]
    place = max(range(len(above)), key=above.__getitem__)
    return place if above[place] > _LEAST else None


_LEAST = 1e-9
