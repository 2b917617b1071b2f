"""Live answers that are continued: the same lines as if each were evaluated anew."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_dashboard.analysis.queries import expressions as ex
from headway_dashboard.analysis.queries.model import Grid, Labels, Point, Series, grid
from headway_dashboard.sources.continued import Continued
from headway_dashboard.sources.exposition import SampleKey
from headway_dashboard.sources.ring import Ring

STALE_S, EVERY_S, RANGE_S = 6.0, 2.0, 60.0
CLASSES = ("normal", "batch")
BOUNDS = ("0.1", "1.0", "+Inf")

DEPTH = ex.Metric("headway_queue_depth", by=("class",))
ENDED = ex.Metric("headway_outcomes_total", by=("class",))
WAIT = ex.Metric("headway_queue_wait_seconds", by=("class",))
EXPRESSIONS: tuple[ex.Expression, ...] = (
    ex.Gauge(DEPTH),
    ex.Gauge(ex.Metric(DEPTH.name), largest=True),
    ex.Peak(DEPTH),
    ex.Rate(ENDED),
    ex.Share(ex.Rate(ENDED), ex.Rate(ENDED)),
    ex.Portion(ex.Rate(ENDED), ex.Rate(ex.Metric(ENDED.name))),
    ex.Quantile(0.9, WAIT, ex.Metric("headway_longest_seconds", by=("class",))),
    ex.Buckets(WAIT),
    ex.Mean(WAIT),
    ex.Over(ex.Share(ex.Rate(ENDED), ex.Rate(ENDED)), 20.0),
)

#: Seconds until the next event; whether it is a reading; the classes of a scrape, and what each of its numbers is.
EVENTS = st.lists(
    st.tuples(
        st.sampled_from((0.0, 0.5, 1.0, 2.0, 3.0, 9.0, 40.0)),
        st.booleans(),
        st.sets(st.sampled_from(CLASSES)),
        st.integers(0, 5),
    ),
    min_size=5,
    max_size=60,
)


def samples(classes: set[str], number: int, turn: int) -> list[tuple[SampleKey, float]]:
    """A scrape with these classes. Its counters grow with the turns, and begin again where ``number`` is 0."""
    found: list[tuple[SampleKey, float]] = []
    count = float(turn * number)
    for name in sorted(classes):
        of_class = ("class", name)
        found += [
            (("headway_queue_depth", (of_class,)), float(number)),
            (("headway_outcomes_total", (of_class,)), count),
            (("headway_longest_seconds", (of_class,)), number / 4),
            (("headway_queue_wait_seconds_sum", (of_class,)), count / 2),
            (("headway_queue_wait_seconds_count", (of_class,)), count),
        ]
        found += [
            (("headway_queue_wait_seconds_bucket", (of_class, ("le", bound))), count / (3 - at))
            for at, bound in enumerate(BOUNDS)
        ]
    return found


def measured(series: Series) -> dict[Labels, Sequence[Point]]:
    """The lines that have a point at all."""
    return {key: list(line) for key, line in series.lines.items() if any(point is not None for point in line)}


@given(events=EVENTS)
def test_a_continued_answer_is_that_of_a_fresh_evaluation(events: list[tuple[float, bool, set[str], int]]) -> None:
    """Scrapes with gaps, resets and classes that come and go, read at any moment."""
    ring = Ring(1800.0, STALE_S)
    evaluated: list[int] = []

    def evaluate(expression: ex.Expression, on: Grid) -> Series:
        evaluated.append(len(on.times_s))
        return ring.evaluate(expression, on)

    continued, now_s = Continued(evaluate), 1000.0
    for turn, (after_s, reading, classes, number) in enumerate(events):
        now_s += after_s
        if not reading:
            ring.add(now_s, samples(classes, number, turn))
            continue
        on = grid(now_s, RANGE_S, EVERY_S)
        for expression in EXPRESSIONS:
            found = continued.evaluate(expression, on, now_s)
            assert found.times_s == on.times_s
            fresh = measured(ring.evaluate(expression, on))
            assert measured(found) == {key: pytest.approx(line) for key, line in fresh.items()}


def test_a_refresh_evaluates_the_last_instants_alone() -> None:
    """Two seconds later: the instant that was not settled, and the new one."""
    ring, asked = Ring(1800.0, STALE_S), list[int]()

    def evaluate(expression: ex.Expression, on: Grid) -> Series:
        asked.append(len(on.times_s))
        return ring.evaluate(expression, on)

    continued = Continued(evaluate)
    for now_s in (1000.5, 1002.5, 1004.5):
        ring.add(now_s, samples({"normal"}, 1, 1))
        continued.evaluate(EXPRESSIONS[0], grid(now_s, RANGE_S, EVERY_S), now_s)
    assert asked == [31, 2, 2]
    continued.forget()
    continued.evaluate(EXPRESSIONS[0], grid(1004.5, RANGE_S, EVERY_S), 1004.5)
    assert asked == [31, 2, 2, 31]
