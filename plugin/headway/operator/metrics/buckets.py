"""Bounds of histogram buckets that suit objectives: fixed ones are bounds themselves, relative ones lie in a fine grid.

An interpolated quantile never passes by mistake an objective that is a bound. An objective that is relative to the
engine is not known when the buckets are chosen, and changes with the engine; where it may come to lie, neighbouring
bounds are at most a third apart, so a quantile is compared with it within that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import ceil, log

#: The least and the most that an objective may come to, in seconds.
Range = tuple[float, float]
_APART_RATIO = 4 / 3


def bounds(
    usual_s: Sequence[float], fixed_s: Iterable[float] = (), ranges_s: Iterable[Range] = ()
) -> tuple[float, ...]:
    """The usual bounds, the fixed objectives, the ends of the ranges, and what makes the grid fine inside of them."""
    ranges = [(least_s, min(most_s, usual_s[-1])) for least_s, most_s in ranges_s]
    ends = [end_s for stretch in ranges for end_s in stretch if end_s > 0]
    found = sorted({*usual_s, *fixed_s, *ends})
    wide = [
        pair for pair in pairwise(found) if any(pair[0] < most_s and least_s < pair[1] for least_s, most_s in ranges)
    ]
    return tuple(sorted({*found, *(bound_s for low_s, high_s in wide for bound_s in _between(low_s, high_s))}))


def _between(low_s: float, high_s: float) -> list[float]:
    """Bounds that divide a bucket into parts of the same ratio; two digits are enough, and stay readable as a label."""
    parts = ceil(log(high_s / low_s) / log(_APART_RATIO) - 1e-9)
    return [float(f"{low_s * (high_s / low_s) ** (part / parts):.2g}") for part in range(1, parts)]
