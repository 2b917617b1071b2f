"""Series arithmetic: the tables are worked out by hand, the properties hold for any samples."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_dashboard.analysis.queries.model import (
    Grid,
    Mark,
    Series,
    change_marks,
    grid,
    held,
    held_s,
    increases,
    newest,
    on_grid,
    onset_marks,
    quantile,
    quantiles,
    quotient,
    rate,
    total,
)

INF = math.inf
ON = Grid(start_s=0, end_s=40, step_s=10, window_s=20)
counts = st.lists(st.integers(0, 1000).map(float), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], []),
        ([5], [0]),
        ([5, 8, 8], [0, 3, 3]),
        ([5, 8, 2, 4], [0, 3, 5, 7]),
        ([5, 0, 0], [0, 0, 0]),
    ],
    ids=["nothing", "one sample", "growth", "reset counts from zero", "reset to zero"],
)
def test_increases(values: list[float], expected: list[float]) -> None:
    """A counter that drops was restarted: its new value is all increase."""
    assert increases(values) == expected


@given(st.lists(st.floats(0, 1e9), max_size=30))
def test_increases_never_fall(values: list[float]) -> None:
    """Whatever a counter does, its running increase never goes down."""
    sums = increases(values)
    assert sums == sorted(sums)
    assert len(sums) == len(values)


def test_rate_is_the_increase_between_the_samples_over_their_time() -> None:
    """Worked out by hand: +10 every 5 s is 2 a second; the first instant has too few samples."""
    times_s = [0.0, 5.0, 10.0, 15.0, 20.0]
    values = [0.0, 10.0, 20.0, 30.0, 40.0]
    assert rate(times_s, values, ON, stale_s=10) == [None, 2.0, 2.0, 2.0, None]


def test_rate_goes_through_a_restart() -> None:
    """100, 110, then restarted and at 6: the increase is 16 over 20 s."""
    on = Grid(20, 20, 10, window_s=20)
    assert rate([0.0, 10.0, 20.0], [100.0, 110.0, 6.0], on, stale_s=5) == [0.8]


def test_rate_has_a_gap_once_samples_stop() -> None:
    """An unreachable server has no rate, although its last samples lie within the window."""
    on = Grid(10, 30, 10, window_s=30)
    assert rate([0.0, 10.0], [0.0, 10.0], on, stale_s=5) == [1.0, None, None]


@pytest.mark.parametrize(
    ("stale_s", "expected"), [(10, [1.0, 1.0, None, 4.0, 4.0]), (30, [1.0, 1.0, 1.0, 4.0, 4.0])], ids=["gap", "held"]
)
def test_held_keeps_a_gauge_only_while_it_is_fresh(stale_s: float, expected: list[float | None]) -> None:
    """A gauge is carried on to the next sample, but not over a hole longer than its freshness."""
    assert held([0.0, 30.0], [1.0, 4.0], ON, stale_s) == expected


def test_total_adds_what_was_measured() -> None:
    """A gap in one line does not hide the others; a gap in all stays a gap."""
    assert total([[1, None, None], [2, 3, None]]) == [3, 3, None]


def test_quotient_is_a_gap_when_nothing_happened() -> None:
    """No requests means no error share, not an error share of 0."""
    assert quotient([1, 0, None, 1], [2, 0, 4, None]) == [0.5, None, None, None]


@pytest.mark.parametrize(
    ("share", "buckets", "expected"),
    [
        (0.5, [(1, 10), (2, 20), (INF, 20)], 1.0),
        (0.75, [(1, 10), (2, 20), (INF, 20)], 1.5),
        (0.25, [(1, 10), (2, 20), (INF, 20)], 0.5),
        (0.99, [(1, 10), (2, 20), (INF, 40)], 2.0),
        (0.9, [(0.1, 0), (0.5, 8), (1, 10), (INF, 10)], 0.75),
        (0.5, [(INF, 20), (2, 20), (1, 10)], 1.0),
        (0.5, [(1, 0), (INF, 0)], None),
        (0.5, [(1, 5)], None),
        (0.5, [], None),
        (0.5, [(INF, 3)], 0.0),
        (0.95, [(1, 10), (2, 9), (INF, 10)], 0.95),
    ],
    ids=[
        "on a bound",
        "inside the second",
        "first starts at zero",
        "open bucket gives its lower bound",
        "empty bucket skipped",
        "any order",
        "no observations",
        "no open bucket",
        "no buckets",
        "only the open bucket",
        "torn scrape is made monotonic",
    ],
)
def test_quantile(share: float, buckets: list[tuple[float, float]], expected: float | None) -> None:
    """Linear inside a bucket, as Prometheus' histogram_quantile; worked out by hand."""
    assert quantile(share, buckets) == (None if expected is None else pytest.approx(expected))


@given(counts, st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_quantile_is_ordered_and_inside_its_bucket(numbers: list[float], one: float, other: float) -> None:
    """A larger share never has a smaller quantile, and each lies in the bucket where its rank falls."""
    bounds = [float(index + 1) for index in range(len(numbers))]
    cumulative = [sum(numbers[: index + 1]) for index in range(len(numbers))]
    buckets = [*zip(bounds, cumulative, strict=True), (INF, cumulative[-1])]
    low, high = quantile(min(one, other), buckets), quantile(max(one, other), buckets)
    if cumulative[-1] == 0:
        assert low is None
        return
    assert low is not None
    assert high is not None
    assert low <= high + 1e-9
    rank = min(one, other) * cumulative[-1]
    at = next(index for index, count in enumerate(cumulative) if count >= rank)
    assert bounds[at] - 1 - 1e-9 <= low <= bounds[at] + 1e-9


def test_quantiles_are_of_the_buckets_that_there_are() -> None:
    """A server that was started anew may have other bounds; without the last one, or without any, there is a gap."""
    found = quantiles(0.5, {0.5: [None, 2, None], 1.0: [1, None, 1], INF: [2, 2, None]})
    assert found == [pytest.approx(1.0), pytest.approx(0.25), None]


@pytest.mark.parametrize(
    ("range_s", "interval_s", "step_s"), [(300, 2, 2), (900, 2, 4), (1800, 2, 8), (300, 15, 15), (300, 0.5, 2)]
)
def test_grid_has_whole_steps_and_few_points(range_s: float, interval_s: float, step_s: float) -> None:
    """At most 240 points and one, never denser than the samples, aligned so that viewers share answers."""
    on = grid(1_000_003.7, range_s, interval_s)
    assert on.step_s == step_s
    assert len(on.times_s) <= 241
    assert on.end_s % step_s == 0
    assert 0 <= on.end_s - 1_000_003.7 < step_s
    assert grid(on.end_s - step_s + 0.1, range_s, interval_s) == on


def test_on_grid_inserts_the_missing_points() -> None:
    """A range query leaves holes out; the chart must show them. NaN is a hole as well."""
    on = Grid(100, 140, 10, 20)
    assert on_grid([(100, 1.0), (120, math.nan), (140, 3.0)], on) == [1.0, None, None, None, 3.0]


def test_newest_skips_the_gap_at_the_end() -> None:
    """The last known value is the one before the gap."""
    assert newest([1.0, 2.0, None]) == 2.0
    assert newest([None]) is None


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ({}, []),
        ({("balanced", "1"): [1, 1, 1, 1]}, []),
        ({("balanced", "1"): [1, 1, None, None], ("latency", "2"): [None, None, 1, 1]}, [Mark(2, "latency")]),
        ({("balanced", "1"): [1, None, None, None], ("latency", "2"): [None, None, None, 1]}, [Mark(3, "latency")]),
        ({("a", "9"): [1, 1, 0, 0], ("a", "10"): [None, 1, 1, 1]}, [Mark(1, "a")]),
        ({("a", "1"): [1, 1, 0, 0], ("b", "2"): [0, 1, 0, 0], ("c", "3"): [0, 1, 1, 1]}, [Mark(1, "c")]),
    ],
    ids=[
        "nothing",
        "no change",
        "change",
        "change behind a gap",
        "both seen at once: the newer revision",
        "two in a step",
    ],
)
def test_change_marks(lines: dict[tuple[str, str], list[float | None]], expected: list[Mark]) -> None:
    """A mark stands where another preset began to run; the first one seen is no change."""
    assert change_marks(Series((0, 1, 2, 3), lines)) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ({("up",): [0, 0, 0, 1], ("lost",): [1, 1, 1, 0]}, []),
        ({("up",): [1, 0, 0, 1], ("lost",): [0, 1, 1, 0]}, [Mark(1, "engine lost", "engine")]),
        ({("up",): [1, None, 0, 0], ("lost",): [0, None, 1, 1]}, [Mark(2, "engine lost", "engine")]),
        ({("up",): [None] * 4}, []),
        ({("up",): [1, 1, 1, 1], ("lost",): [0, 0, 1, 0]}, [Mark(2, "engine lost", "engine")]),
        ({("up",): [1, 1, 1, 1], ("lost",): [0, 1, 1, 1]}, [Mark(1, "engine lost", "engine")]),
        ({("up",): [1, 1, 1, 1], ("lost",): [1, 1, 0, 0]}, []),
        ({("lost",): [0, 1, 0, 1], ("up",): [1, 1, 1, 0]}, [Mark(at, "engine lost", "engine") for at in (1, 3)]),
        (
            {("silent",): [0, 1, 0, 0], ("lost",): [0, 1, 1, 0], ("up",): [1, 1, 1, 1]},
            [Mark(1, "engine silent", "engine"), Mark(1, "engine lost", "engine")],
        ),
    ],
    ids=[
        "the first one seen is no onset",
        "onset",
        "onset behind a gap",
        "nothing",
        "shorter than a step",
        "one that holds on, seen with up in each step",
        "the first one seen with up",
        "again",
        "two troubles of one step",
    ],
)
def test_onset_marks(lines: dict[tuple[str, ...], list[float | None]], expected: list[Mark]) -> None:
    """A mark stands where a state that has a name began; coming back from it is none."""
    said = {"silent": "engine silent", "lost": "engine lost"}
    assert onset_marks(Series((0, 1, 2, 3), lines), said) == expected


def test_up_begins_where_all_troubles_are_over() -> None:
    """Once, although it was seen before and between them."""
    lines = {("up",): [1, 1, 1, 1, 1], ("lost",): [0, 1, 1, 0, 0]}
    marks = onset_marks(Series((0, 1, 2, 3, 4), lines), {"up": "engine up", "lost": "engine lost"})
    assert marks == [Mark(1, "engine lost", "engine"), Mark(3, "engine up", "engine")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [([0, 1, 1, 1], 2), ([0, 0, 0, 1], 0), ([1, 1, 1, 0], None), ([1, 1, 1, 1], None), ([0, None, 1, 1], None)],
    ids=["for two", "just now", "not any more", "longer than is known", "a gap before it"],
)
def test_held_s(line: list[float | None], expected: float | None) -> None:
    """For how long something has been so, where that is known."""
    assert held_s((0, 1, 2, 3), line) == expected
