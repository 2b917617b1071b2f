"""The reading of a page: everything at once, and a second time only for a comparison."""

from __future__ import annotations

import pytest

from headway_dashboard.analysis.queries.model import Series
from headway_dashboard.analysis.server.identity import LAST_CHANGE
from headway_dashboard.analysis.view import Span, View
from headway_dashboard.page import PAGES
from headway_dashboard.pages.page_reading import EVENTS_S, RECENT_S, Page, read_page
from headway_dashboard.sources import Health, MergedStatusSource, Questions, SourceReading


class Counting:
    """A source that notes what it is asked; the preset was changed last at 700 s."""

    longest_range_s = 86_400.0
    health = Health(1000.0)

    def __init__(self) -> None:
        self.asked: list[set[Span]] = []

    def read(self, questions: Questions) -> dict[Span, SourceReading]:
        """Nothing but the last change."""
        self.asked.append({*questions})
        changed = {LAST_CHANGE: Series((1000.0,), {(): [700.0]})}
        return {one: SourceReading(changed, self.health, 2.0, "test", range_s=one.range_s) for one in questions}

    def close(self) -> None:
        """Nothing to close."""


@pytest.mark.parametrize("page", PAGES, ids=[page.path for page in PAGES])
def test_a_refresh_reads_once(page: Page) -> None:
    """The figures of now, the charts and the events, of one moment."""
    source, status = Counting(), MergedStatusSource({})
    read_page(page, source, status, View(range_s=900.0))
    assert source.asked == [{Span(RECENT_S), Span(900.0), Span(EVENTS_S)}]
    read_page(page, source, status, View(range_s=900.0, end_s=500.0))
    assert {one.end_s for one in source.asked[1]} == {500.0}


def test_a_comparison_is_a_second_reading() -> None:
    """The second reading is of the time before the last change, which the first one has found."""
    source = Counting()
    read_page(PAGES[0], source, MergedStatusSource({}), View(range_s=900.0, before_change=True))
    assert source.asked[1:] == [{Span(900.0, 700.0)}]


def test_at_a_fixed_time_the_state_is_that_of_the_time() -> None:
    """A server that does not answer now did then: its figures of then are no last known ones."""
    source = Counting()
    source.health = Health(1000.0, 9, "refused", "gone", 1000.0)
    found = read_page(PAGES[0], source, MergedStatusSource({}), View(range_s=900.0, end_s=500.0))
    assert found.state.current
    assert not read_page(PAGES[0], source, MergedStatusSource({}), View(range_s=900.0)).state.current
