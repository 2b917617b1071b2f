"""The memory of scrapes: all of the recent ones, every second of the old ones, none beyond its time."""

from __future__ import annotations

import pytest

from headway_dashboard.analysis.queries import expressions as ex
from headway_dashboard.analysis.queries.model import Grid
from headway_dashboard.sources.ring import Ring

EVERY_S = 2.0
KEY = ("headway_queue_depth", (("class", "normal"),))
GAUGE = ex.Gauge(ex.Metric("headway_queue_depth"))


def filled(length_s: float, keep_s: float = 1800.0) -> Ring:
    """A gauge that shows the time of each scrape."""
    ring = Ring(keep_s, stale_s=3 * EVERY_S)
    for turn in range(int(length_s / EVERY_S) + 1):
        ring.add(turn * EVERY_S, [(KEY, turn * EVERY_S)])
    return ring


def test_all_recent_scrapes_are_kept_and_every_second_old_one() -> None:
    """Five minutes of 2 s, and 25 of 4 s."""
    assert len(filled(300.0)) == 151
    assert len(filled(1800.0)) == pytest.approx(150 + 1500 / 4, abs=2)


def test_the_old_ones_leave_no_gap_in_a_line() -> None:
    """Each point has a sample that is not stale."""
    line = filled(1800.0).evaluate(GAUGE, Grid(0.0, 1800.0, EVERY_S, 30.0)).line()
    assert None not in line
    assert all(point is not None and 0 <= at * EVERY_S - point <= 2 * EVERY_S for at, point in enumerate(line))


def test_what_is_older_than_its_time_is_forgotten() -> None:
    """Old ones and, where the time is short, recent ones."""
    assert len(filled(1800.0, keep_s=100.0)) == 51
    line = filled(1800.0, keep_s=600.0).evaluate(GAUGE, Grid(0.0, 1800.0, 100.0, 30.0)).line()
    assert [point is None for point in line] == [at * 100.0 < 1200.0 for at in range(19)]


def test_a_clock_that_is_set_back_forgets_what_it_contradicts() -> None:
    """Old ones as well."""
    ring = filled(1800.0)
    ring.add(100.0, [(KEY, 7.0)])
    assert ring.evaluate(GAUGE, Grid(0.0, 100.0, EVERY_S, 30.0)).latest() == 7.0
    assert len(ring) == 26
