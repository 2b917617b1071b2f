"""The instants at which Prometheus is asked for a range.

As those of the ring, but none lies after now, where Prometheus knows nothing: a rate over a window whose end is still
empty would come out too low, by a quarter with a step of 5 s. A coarse grid, with steps of more than a minute, ends
within the last minute and moves once a minute.
"""

from __future__ import annotations

import math

from headway_dashboard.analysis.queries.model import Grid, grid

_COARSE_S = 60.0


def query_grid(now_s: float, range_s: float, interval_s: float) -> Grid:
    """The grid for the last ``range_s`` before ``now_s``, with at most about 240 steps."""
    on = grid(now_s, range_s, interval_s)
    end_s = math.floor(now_s / min(on.step_s, _COARSE_S)) * min(on.step_s, _COARSE_S)
    return Grid(end_s - (on.end_s - on.start_s), end_s, on.step_s, on.window_s)


def is_coarse(on: Grid) -> bool:
    """Whether the same grid holds for a minute, so that its answer need not be asked for again."""
    return on.step_s > _COARSE_S
