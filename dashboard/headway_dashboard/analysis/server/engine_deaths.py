"""Engine deaths by cause: which one was the last, and how many were not planned.

The server counts the end of an engine that it replaces by command among the deaths, as the cause ``recycle``.
"""

from __future__ import annotations

from itertools import pairwise
from math import fsum

from headway_dashboard.analysis.queries.model import Labels, Point, Series, newest

RECYCLE = "recycle"


def last_cause(deaths: Series) -> str:
    """The cause of the last death, from the counters by cause; empty where that cannot be told.

    The cause is that of the counter that grew last, or, where none grew in the time of the series, the only one above
    zero.
    """
    grew = [(at, labels[0]) for labels in deaths.lines if (at := _last_growth(deaths, labels)) is not None]
    if grew:
        return max(grew)[1]
    causes = [labels[0] for labels, line in deaths.lines.items() if newest(line)]
    return causes[0] if len(causes) == 1 else ""


def unplanned(deaths: Series) -> Point:
    """The number of engines that died without a command; None where nothing is known of deaths."""
    counts = {labels[0]: number for labels, line in deaths.lines.items() if (number := newest(line)) is not None}
    return fsum(number for cause, number in counts.items() if cause != RECYCLE) if counts else None


def _last_growth(deaths: Series, labels: Labels) -> int | None:
    known = [(at, point) for at, point in enumerate(deaths.lines[labels]) if point is not None]
    grown = [at for (_, before), (at, after) in pairwise(known) if after > before]
    return grown[-1] if grown else None
