"""The largest sample of a window, and lines that are cut to it.

A quantile is interpolated inside a bucket and may so come out above every observation; a gauge of the longest one says
how far it can be.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from headway_dashboard.analysis.queries.model import Grid, Point


def peaks(times_s: Sequence[float], values: Sequence[float], on: Grid) -> list[Point]:
    """The largest sample in each point's window, as PromQL's ``max_over_time``; a gap where there is none."""
    points: list[Point] = []
    for instant in on.times_s:
        window = values[bisect_left(times_s, instant - on.window_s) : bisect_right(times_s, instant)]
        points.append(max(window, default=None))
    return points


def cut(line: Sequence[Point], tops: Sequence[Point]) -> list[Point]:
    """The line, nowhere above the tops. A top that is missing or not positive cuts nothing."""
    return [
        top if point is not None and top is not None and 0 < top < point else point
        for point, top in zip(line, tops, strict=True)
    ]
