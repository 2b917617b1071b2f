"""Hours, days and months of a calendar, in time zones whose clocks change."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.budgets import Calendar, Span

BERLIN, KOLKATA, CHATHAM = map(ZoneInfo, ("Europe/Berlin", "Asia/Kolkata", "Pacific/Chatham"))
TIMES = st.floats(946_684_800, 4_000_000_000)
ZONES = st.sampled_from([UTC, BERLIN, KOLKATA, CHATHAM, ZoneInfo("America/New_York")])


@given(TIMES, ZONES, st.sampled_from(list(Span)))
def test_a_time_is_in_its_own_period_and_periods_have_no_gap(time_s: float, zone: ZoneInfo, span: Span) -> None:
    """The end of one is the start of the next."""
    calendar = Calendar(zone)
    found = calendar.stretch(span, time_s)
    assert found.start_s <= time_s < found.end_s
    assert calendar.stretch(span, found.end_s).start_s == found.end_s
    assert calendar.stretch(span, found.start_s) == found


@given(TIMES, ZONES)
def test_a_month_begins_with_its_first_day_at_midnight(time_s: float, zone: ZoneInfo) -> None:
    """Of the zone."""
    month = Calendar(zone).stretch(Span.MONTH, time_s)
    begin = datetime.fromtimestamp(month.start_s, zone)
    assert begin.day == 1
    assert month.start_s <= Calendar(zone).stretch(Span.DAY, time_s).start_s < month.end_s


@pytest.mark.parametrize(
    ("day", "hours"), [(datetime(2026, 3, 29), 23), (datetime(2026, 10, 25), 25), (datetime(2026, 10, 26), 24)]
)
def test_a_day_on_which_clocks_change_has_another_length(day: datetime, hours: int) -> None:
    """And an hour stays one."""
    time_s = day.replace(hour=12, tzinfo=BERLIN).timestamp()
    found = Calendar(BERLIN).stretch(Span.DAY, time_s)
    assert found.end_s - found.start_s == hours * 3600
    hour = Calendar(BERLIN).stretch(Span.HOUR, time_s)
    assert hour.end_s - hour.start_s == 3600


def test_the_rest_of_a_period() -> None:
    """From 1 to 0."""
    found = Calendar().stretch(Span.HOUR, 7200.0)
    assert [found.rest_ratio(now_s) for now_s in (7000.0, 7200.0, 9000.0, 10_800.0, 20_000.0)] == [1, 1, 0.5, 0, 0]
