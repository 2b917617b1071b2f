"""The hours, days and months of a calendar in a time zone, as seconds since 1970."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import NamedTuple


class Span(StrEnum):
    """The length of a budget's period, which begins with the hour, day or month of the calendar."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


class Stretch(NamedTuple):
    """An hour, day or month, from ``start_s`` until before ``end_s``, in seconds since 1970."""

    start_s: float
    end_s: float

    def rest_ratio(self, now_s: float) -> float:
        """The remaining part of the stretch, 0 to 1."""
        return min(1.0, max(0.0, (self.end_s - now_s) / (self.end_s - self.start_s)))


@dataclass(frozen=True, slots=True)
class Calendar:
    """The calendar of a time zone. A day has 23 or 25 hours where its clocks are changed."""

    zone: tzinfo = UTC

    def stretch(self, span: Span, time_s: float) -> Stretch:
        """The hour, day or month that a time is in."""
        local = datetime.fromtimestamp(time_s, self.zone)
        if span is Span.HOUR:  # by length: where clocks go back, an hour comes twice
            passed = timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
            start_s = round(time_s - passed.total_seconds(), 3)
            return Stretch(start_s, start_s + 3600)
        day = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        if span is Span.DAY:
            return Stretch(day.timestamp(), _date_after(day, 1).timestamp())
        first = day.replace(day=1)
        return Stretch(first.timestamp(), _date_after(first, 31).replace(day=1).timestamp())


def _date_after(day: datetime, days: int) -> datetime:
    """Midnight so many dates later: a sum of local times counts dates, not hours."""
    return day + timedelta(days=days)
