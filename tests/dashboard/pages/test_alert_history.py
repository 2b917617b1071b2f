"""The marks of alerts are found once for all visitors, and again when they are some seconds old."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.view import Span
from headway_dashboard.pages.alert_history import KEPT_S, UP_TO_S, AlertHistory
from headway_dashboard.sources import ChosenSource, Health, Reading


class Counting:
    """A source that counts how often it is read."""

    longest_range_s = 86_400.0

    def __init__(self) -> None:
        self.reads = 0

    def read(self, expressions: Sequence[Expression], range_s: float, end_s: float | None = None) -> Reading:
        """Nothing."""
        self.reads += 1
        return Reading({}, Health(1.0), 2.0, "test", range_s=range_s, end_s=1000.0)

    def close(self) -> None:
        """Nothing to close."""


def test_tabs_share_what_was_found_for_some_seconds() -> None:
    """The same time of the same source is looked at once, another time or another server by itself."""
    now_s = [100.0]
    history, source = AlertHistory(lambda: now_s[0]), Counting()
    for _ in range(3):
        assert history.marks(source, Span(900.0)) == []
    assert source.reads == 1
    history.marks(source, Span(1800.0))
    history.marks(source, Span(900.0, 500.0))
    history.marks(ChosenSource(source, "a"), Span(900.0))
    history.marks(ChosenSource(source, "a"), Span(900.0))
    assert source.reads == 4
    now_s[0] += KEPT_S
    history.marks(source, Span(900.0))
    assert source.reads == 5


@pytest.mark.parametrize("range_s", [UP_TO_S + 1, 30 * 86_400.0])
def test_a_time_of_days_has_none(range_s: float) -> None:
    """Its points are too far apart for the conditions."""
    source = Counting()
    assert AlertHistory().marks(source, Span(range_s)) == []
    assert source.reads == 0
