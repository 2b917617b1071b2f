"""The memory of scrapes: all of the recent ones, every second of the old ones, none beyond its time."""

from __future__ import annotations

import pytest

from headway_dashboard.analysis.queries import expressions as ex
from headway_dashboard.analysis.queries.model import Grid
from headway_dashboard.sources import ring as ring_module
from headway_dashboard.sources.ring import UP, Ring

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


def test_a_failed_scrape_is_remembered_and_changes_no_figure() -> None:
    """``up`` is 0 from then on, and a gauge keeps its last sample until it is stale."""
    ring, up = Ring(1800.0, stale_s=6.0), ex.Gauge(ex.Metric("up"))
    for time_s in (0.0, 2.0):
        ring.add(time_s, [(UP, 1.0), (KEY, 7.0)])
    for time_s in (4.0, 6.0, 8.0, 10.0, 12.0):
        ring.missed(time_s)
    on = Grid(0.0, 12.0, 2.0, 30.0)
    assert ring.evaluate(up, on).line() == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert ring.evaluate(GAUGE, on).line() == [7.0, 7.0, 7.0, 7.0, 7.0, 7.0, None]
    ring.add(14.0, [(UP, 1.0), (KEY, 8.0)])
    assert ring.evaluate(GAUGE, Grid(14.0, 14.0, 2.0, 30.0)).line() == [8.0]


def test_a_failed_scrape_takes_no_sample_away() -> None:
    """Even if the clock says that it was before the newest one, which a good scrape would contradict."""
    ring = Ring(1800.0, stale_s=6.0)
    ring.add(10.0, [(UP, 1.0), (KEY, 7.0)])
    for time_s in (10.0, 4.0):
        ring.missed(time_s)
    assert len(ring) == 1
    assert ring.evaluate(GAUGE, Grid(10.0, 10.0, 2.0, 30.0)).line() == [7.0]


def test_series_that_are_gone_leave_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new pod of a router has series of its own: those of the last half hour are kept, and new ones read."""
    monkeypatch.setattr(ring_module, "_MAX_SERIES", 20)
    ring = Ring(60.0, stale_s=3 * EVERY_S)

    def pod(number: int) -> tuple[str, tuple[tuple[str, str], ...]]:
        return ("headway_instance_up", (("name", f"pod-{number}"),))

    for turn in range(200):
        ring.add(turn * EVERY_S, [(KEY, turn * EVERY_S), (pod(turn // 5), 1.0)])
        assert len(ring._index) <= 20
    lines = ring.evaluate(ex.Gauge(ex.Metric("headway_instance_up", by=("name",))), Grid(390.0, 398.0, 2.0, 30.0)).lines
    assert lines[("pod-39",)][-1] == 1.0
    assert ring.evaluate(GAUGE, Grid(350.0, 398.0, EVERY_S, 30.0)).line()[-1] == 398.0
    assert ring._values == sum(len(row) for _, row in [*ring._old, *ring._frames])
