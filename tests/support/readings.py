"""Readings of the dashboard, made of the points of each line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.model import Labels, Point, Series
from headway_dashboard.analysis.queries.reading import Health, SourceReading

END_S = 2000.0

Lines = Mapping[Labels, Sequence[Point]]


def reading_of(answers: Mapping[Expression, Lines | Sequence[Point]], *, step_s: float = 2.0) -> SourceReading:
    """A reading that ends at ``END_S``; a plain list of points is of the line without labels."""
    series = {answer: _series(found, step_s) for answer, found in answers.items()}
    range_s = max((step_s * (len(one.times_s) - 1) for one in series.values()), default=0.0)
    return SourceReading(series, Health(END_S), step_s, "test", range_s=range_s, end_s=END_S)


def _series(found: Lines | Sequence[Point], step_s: float) -> Series:
    lines = found if isinstance(found, Mapping) else {(): found}
    count = len(next(iter(lines.values())))
    return Series(tuple(END_S - step_s * (count - 1 - at) for at in range(count)), lines)
