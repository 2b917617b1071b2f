"""Answers of live charts, continued from the last reading: only the instants since then are evaluated.

A chart moves on by a point or two at each refresh, and all others stay as they were: samples come in the order of their
times, so what was at or before a reading is settled. Grids are aligned to the epoch, so that the instants of two
readings are the same ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.model import Grid, Labels, Point, Series

_MAX_KEPT = 500


@dataclass(frozen=True, slots=True)
class _Kept:
    """An answer, and before which time its points are settled."""

    series: Series
    settled_s: float


class Continued:
    """Evaluates expressions with ``evaluate``, and keeps the last answer to each, for each kind of grid.

    Not thread-safe. Its owner calls ``forget`` when a sample was taken back.
    """

    def __init__(self, evaluate: Callable[[Expression, Grid], Series]) -> None:
        self._evaluate = evaluate
        self._kept: dict[tuple[Expression, float, float, int], _Kept] = {}

    def forget(self) -> None:
        """Evaluate everything anew."""
        self._kept.clear()

    def evaluate(self, expression: Expression, on: Grid, now_s: float) -> Series:
        """The expression's lines on a grid. Every sample that comes later must be of ``now_s`` or a later time."""
        key = (expression, on.step_s, on.window_s, len(on.times_s))
        kept = self._kept.get(key)
        series = self._evaluate(expression, on) if kept is None else self._continue(kept, expression, on)
        if len(self._kept) >= _MAX_KEPT:
            self._kept.clear()
        self._kept[key] = _Kept(series, now_s)
        return series

    def _continue(self, kept: _Kept, expression: Expression, on: Grid) -> Series:
        times_s = kept.series.times_s
        first, after = bisect_left(times_s, on.start_s), bisect_left(times_s, kept.settled_s)
        count = after - first
        if count <= 0 or times_s[first] != on.start_s:
            return self._evaluate(expression, on)
        if count == len(on.times_s):
            return kept.series
        rest = self._evaluate(expression, replace(on, start_s=on.times_s[count]))
        gap = [None] * (len(on.times_s) - count)
        lines: dict[Labels, Sequence[Point]] = {}
        for labels, line in kept.series.lines.items():
            part = line[first:after]
            if labels in rest.lines or any(point is not None for point in part):
                lines[labels] = [*part, *rest.lines.get(labels, gap)]
        for labels, line in rest.lines.items():
            lines.setdefault(labels, [*[None] * count, *line])
        return Series(on.times_s, lines)
