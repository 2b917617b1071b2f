"""Long ranges from Prometheus, and what a slow or hanging one costs a page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.queries.model import MAX_POINTS
from headway_dashboard.sources import FallbackSource, PrometheusSource, ScrapeSource, read
from headway_dashboard.sources.query_grid import is_coarse, query_grid

Until = Callable[..., None]
NOW_S = 1_800_000_123.0
DAY_S = 86_400.0


@given(st.floats(0, 2e9), st.floats(10, 31 * DAY_S), st.floats(0.5, 60))
def test_any_range_has_a_sensible_grid(now_s: float, range_s: float, interval_s: float) -> None:
    """At most 241 points, none after now: a rate over a window that is partly still to come would be too low."""
    on = query_grid(now_s, range_s, interval_s)
    assert len(on.times_s) <= MAX_POINTS + 1
    assert 0 <= now_s - on.end_s <= min(60.0, on.step_s)
    assert on.end_s - on.start_s <= range_s + 1e-6
    assert on.end_s - on.start_s > range_s - on.step_s - 1e-6
    assert on.window_s >= 2 * on.step_s
    assert not is_coarse(on) or on.step_s > 60


class Canned:
    """A Prometheus that answers from memory; ``slow_from_s`` is the range that it cannot answer in time."""

    def __init__(self, slow_from_s: float = float("inf"), instances: Sequence[str] = ("a:1",)) -> None:
        self.slow_from_s = slow_from_s
        self.instances = instances
        self.down: set[str] = set()
        self.asked: list[tuple[str, float]] = []

    def custom_query(self, query: str) -> list[dict[str, Any]]:
        """The two look-ups of the targets."""
        if query.startswith("max by (instance) (up"):
            return [{"metric": {"instance": instance}, "value": [NOW_S, str(int(instance not in self.down))]}
                    for instance in self.instances]  # fmt: skip
        seen = [instance for instance in self.instances if instance not in self.down]
        return [{"metric": {"instance": one}, "values": [[NOW_S - 5, "1"], [NOW_S, "1"]]} for one in seen]

    def custom_query_range(self, query: str, start_time: Any, end_time: Any, step: str) -> list[dict[str, Any]]:
        """One point at the end."""
        range_s = end_time.timestamp() - start_time.timestamp()
        self.asked.append((query, range_s))
        if range_s >= self.slow_from_s:
            raise requests.Timeout
        return [{"metric": {}, "values": [[end_time.timestamp(), "7"]]}]

    def close(self) -> None:
        """Nothing to close."""


def source_of(canned: Canned, clock: Callable[[], float] = lambda: NOW_S, **more: Any) -> PrometheusSource:
    """A source that asks the canned answers, without a thread."""
    source = PrometheusSource("http://127.0.0.1:1", clock=clock, **{"steady": clock, **more})
    source._client = canned  # type: ignore[assignment]  # no network
    source._start = lambda: None  # type: ignore[method-assign]  # the test asks by hand
    source._patient = False
    return source


@pytest.mark.parametrize("days", [1, 3, 7, 30])
def test_ranges_of_days_are_answered(days: int) -> None:
    """In steps of minutes or hours; the newest point is there."""
    canned = Canned()
    source = source_of(canned)
    read(source, (panels.LIMIT,), days * DAY_S)
    source.refresh()
    assert read(source, (panels.LIMIT,), days * DAY_S)[panels.LIMIT].latest() == 7
    assert days * DAY_S <= source.longest_range_s


def test_a_peak_looks_back_for_a_step() -> None:
    """And no further, however long the window of a rate is: what was over before is not of this step."""
    canned = Canned()
    source = source_of(canned)
    for range_s in (300.0, DAY_S):
        read(source, (panels.PRESETS_SEEN,), range_s)
    source.refresh()
    asked = "max by (preset, revision) (max_over_time(headway_preset_info[{}]))"
    assert [query for query, _ in canned.asked] == [asked.format("5s"), asked.format("360s")]


def test_a_coarse_grid_is_asked_for_once_a_minute() -> None:
    """A month of points every two seconds would be for nothing; a short range is asked for each time."""
    now_s = NOW_S
    canned = Canned()
    source = source_of(canned, lambda: now_s)
    for later_s, asked in ((0, 2), (2, 3), (2, 4), (60, 6)):
        now_s += later_s
        for range_s in (300.0, 30 * DAY_S):
            read(source, (panels.LIMIT,), range_s)
        source.refresh()
        assert len(canned.asked) == asked


def test_a_range_that_rests_is_no_new_question() -> None:
    """Or the thread would ask again at once, for as long as the page is open."""
    source = source_of(Canned(slow_from_s=DAY_S))
    read(source, (panels.LIMIT,), DAY_S)
    assert source._has_new_question()
    source.refresh()
    assert not source._has_new_question()
    read(source, (panels.LIMIT,), 300.0)
    assert source._has_new_question()


def test_a_clock_that_is_set_back_does_not_keep_prometheus_unasked() -> None:
    """The pauses are of a clock that nobody sets."""
    clock, steady = [NOW_S], [0.0]
    canned = Canned()
    source = source_of(canned, lambda: clock[0], steady=lambda: steady[0])
    source._client = None  # type: ignore[assignment]  # any call is an error
    for _ in range(2):
        source.refresh()
    source._client = canned  # type: ignore[assignment]  # it is there by now
    clock[0] -= 7200.0
    steady[0] += 11.0
    read(source, (panels.LIMIT,), 300.0)
    source.refresh()
    assert source.reachable
    assert canned.asked


def test_a_range_that_is_too_long_costs_the_others_nothing() -> None:
    """The range is left alone for a minute and named; the short ones go on, and Prometheus counts as reachable."""
    now_s = NOW_S
    canned = Canned(slow_from_s=7 * DAY_S)
    source = source_of(canned, lambda: now_s)
    for _ in range(3):
        for range_s in (30 * DAY_S, 300.0):
            read(source, (panels.LIMIT,), range_s)
        source.refresh()
    assert source.reachable
    assert read(source, (panels.LIMIT,), 300.0)[panels.LIMIT].latest() == 7
    assert read(source, (panels.LIMIT,), 300.0).note == ""
    assert "choose a shorter range" in read(source, (panels.LIMIT,), 30 * DAY_S).note
    assert sum(range_s > DAY_S for _, range_s in canned.asked) == 1
    now_s += 61
    read(source, (panels.LIMIT,), 30 * DAY_S)
    source.refresh()
    assert sum(range_s > DAY_S for _, range_s in canned.asked) == 2


def test_a_short_range_that_does_not_come_is_a_failure() -> None:
    """Then Prometheus itself does not answer in time."""
    source = source_of(Canned(slow_from_s=0.0))
    read(source, (panels.LIMIT,), 300.0)
    source.refresh()
    assert not source.reachable
    assert read(source, (), 300.0).health.trouble == "silent"


# ---------------------------------------------------------------------- several servers


def test_the_servers_that_are_meant_are_read_alone() -> None:
    """Where Prometheus knows them by name; others that it scrapes are left out of the sums."""
    canned = Canned(instances=("a:1", "b:1", "c:1"))
    source = source_of(canned, instances=("a:1", "b:1"))
    read(source, (panels.LIMIT,), 300.0)
    source.refresh()
    assert 'instance=~"a:1|b:1"' in canned.asked[-1][0]
    assert list(read(source, (), 300.0).instances) == ["a:1", "b:1"]


def test_all_servers_are_read_where_their_names_are_others() -> None:
    """Prometheus may know a server by a name of its own."""
    canned = Canned(instances=("x", "y"))
    source = source_of(canned, instances=("a:1",))
    read(source, (panels.LIMIT,), 300.0)
    source.refresh()
    assert "instance" not in canned.asked[-1][0]
    assert list(read(source, (), 300.0).instances) == ["x", "y"]


def test_one_server_that_prometheus_does_not_reach_is_not_all() -> None:
    """The health of each, and of all together; one that Prometheus no longer scrapes is forgotten."""
    canned = Canned(instances=("a:1", "b:1"))
    source = source_of(canned)
    source.refresh()
    canned.down = {"b:1"}
    source.refresh()
    reading = read(source, (), 300.0)
    assert reading.health.trouble is None
    assert reading.instances["a:1"].trouble is None
    assert reading.instances["b:1"].trouble == "refused"
    canned.instances = ("a:1",)
    source.refresh()
    assert list(read(source, (), 300.0).instances) == ["a:1"]
    canned.down = {"a:1"}
    source.refresh()
    assert read(source, (), 300.0).health.trouble == "refused"


@pytest.mark.slow
def test_a_page_waits_for_a_hanging_prometheus_once(black_hole: str, nobody: str, until: Until) -> None:
    """A page has many readings: only the first of them waits, also with servers that hang."""
    prometheus = PrometheusSource(black_hole, instances=("a:1", "b:1"), interval_s=0.5)
    source = FallbackSource(prometheus, ScrapeSource(black_hole, nobody, interval_s=0.5))
    took_s = []
    for range_s in (300.0, 900.0, 1800.0, 30 * DAY_S) * 2:
        began_s = time.monotonic()
        read(source, panels.FACTS, range_s)
        took_s.append(time.monotonic() - began_s)
    assert sum(took_s[1:]) < 0.5 * took_s[0]
    assert prometheus.reachable, "it waited until Prometheus was given up"
    until(lambda: not prometheus.reachable)
    source.close()
