"""The arithmetic of the overload."""

from __future__ import annotations

import pytest

from headway_tools.demo.overload.figures import Delays, figures
from headway_tools.demo.overload.shares import ClassShare
from headway_tools.load.histogram import Histogram
from headway_tools.load.scrape import ClassCounts, Counts
from headway_tools.load.served import COMPLETED, FAILED, REFUSED, Served

SERVED = [
    Served("realtime", COMPLETED, 0.1, 10),
    Served("batch", COMPLETED, 0.1, 30),
    Served("batch", REFUSED, why="shed", retry_after_s=9),
    Served("batch", REFUSED, why="queue_timeout", retry_after_s=3),
    Served("batch", FAILED, why="cut"),
]


def test_the_figures_are_what_was_added_during_the_overload() -> None:
    """Counts by class from the server, answers and advice from the clients, delays of the most urgent class."""
    earlier = ClassCounts(10, 0, 0, {"completed": 10}, {}, Histogram({"1": 10, "2": 10, "+Inf": 10}))
    before = Counts({"realtime": ClassCounts(waits=Histogram({"0.1": 8, "+Inf": 8}))})
    later = ClassCounts(11, 0, 0, {"completed": 11, "shed": 0}, {}, Histogram({"1": 10, "2": 11, "+Inf": 11}))
    batch = ClassCounts(
        4, 0, 0, {"completed": 1, "shed": 2, "failed": 1}, {"shed": 1, "queue_timeout": 1, "evicted": 0}
    )
    first = Counts({"realtime": earlier}, rungs={"normal": 1, "cap": 1, "shed": 0, "divert": 0})
    last = Counts({"realtime": later, "batch": batch}, rungs={"normal": 2, "cap": 2, "shed": 1, "divert": 0})
    shares = [ClassShare("realtime", 1, 1, 1, 1, 0.5)], [ClassShare("realtime", 1, 1, 1, 0, 0.5)]
    found = figures(10.0, 0.3, {"realtime": 1, "batch": 5}, SERVED, (first, last), before, shares)
    assert (found.shares, found.without) == shares
    realtime, others = found.classes
    assert (realtime.sent, realtime.ended, realtime.arrived, realtime.completed, realtime.refused) == (1, 1, 1, 1, {})
    assert (others.sent, others.ended, others.arrived) == (5, 4, 4)
    assert (others.outcomes, others.refused) == (
        {"completed": 1, "shed": 2, "failed": 1},
        {"shed": 1, "queue_timeout": 1},
    )
    assert (found.sent, found.offered_per_s, found.answered, found.unanswered) == (6, 0.6, 4, 2)
    assert found.retry_after_s == (3, 9)
    assert found.before == Delays(pytest.approx(0.095), None)
    assert found.during == Delays(pytest.approx(1.95), None)
    assert found.rungs == ["cap", "shed"]


def test_a_server_that_shows_nothing_leaves_nothing_out() -> None:
    """Every class that was sent is there, without counts."""
    found = figures(1.0, 0.0, {"realtime": 1}, [], (Counts({}), Counts({})), Counts({}), ([], []))
    assert [(one.class_name, one.sent, one.ended, one.arrived) for one in found.classes] == [("realtime", 1, 0, 0)]
    assert (found.retry_after_s, found.unanswered, found.rungs) == (None, 1, [])
