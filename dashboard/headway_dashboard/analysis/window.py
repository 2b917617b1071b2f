"""A fixed time: the window that all pages show while they are paused, and its text in the address of the page.

The address has whole seconds since the epoch, in UTC: a link shows the same time to every reader.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from math import ceil, floor, isfinite

from headway_dashboard.analysis.units import duration

#: The names of both ends in the address.
FROM, TO = "from", "to"

#: Shorter windows hold no two points of most charts; longer ones would be asked of no source.
SHORTEST_S, LONGEST_S = 10, 31 * 86_400
#: Ten digits reach the year 2286.
_SECONDS = re.compile(r"[0-9]{1,10}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Window:
    """The time between two instants, in whole seconds since the epoch."""

    start_s: int
    end_s: int

    @property
    def range_s(self) -> float:
        """The length of the window."""
        return float(self.end_s - self.start_s)

    @property
    def texts(self) -> dict[str, str]:
        """Both ends as they stand in the address."""
        return {FROM: str(self.start_s), TO: str(self.end_s)}

    def words(self, zone: tzinfo) -> str:
        """Both ends on the clock of a zone; the date of the second one only where it is another day."""
        start, end = (datetime.fromtimestamp(time_s, zone) for time_s in (self.start_s, self.end_s))
        last = f"{end:%H:%M:%S}" if start.date() == end.date() else f"{end:%Y-%m-%d %H:%M:%S}"
        return f"{start:%Y-%m-%d %H:%M:%S} to {last}"


def window_between(start_s: float, end_s: float) -> Window | None:
    """The window around two instants, at least ``SHORTEST_S`` long; None where it would be none, or too long."""
    if not (isfinite(start_s) and isfinite(end_s)) or not 0 <= start_s < end_s < 10**10:
        return None
    first, last = floor(start_s), ceil(end_s)
    missing = max(0, SHORTEST_S - (last - first))
    first = max(0, first - missing // 2)
    found = Window(first, max(last, first + SHORTEST_S))
    return found if found.range_s <= LONGEST_S else None


def window_of(starts: Sequence[str], ends: Sequence[str]) -> Window | None:
    """The window named by an address; None for an address without a window."""
    texts = (starts[0] if starts else "", ends[0] if ends else "")
    if not all(_SECONDS.fullmatch(text) for text in texts):
        return None
    start_s, end_s = map(int, texts)
    return Window(start_s, end_s) if SHORTEST_S <= end_s - start_s <= LONGEST_S else None


def before_now(now_s: float, range_s: float) -> Window:
    """The last ``range_s`` seconds, as they are at this moment."""
    return Window(floor(now_s) - ceil(range_s), floor(now_s))


def missing_words(window: Window, now_s: float, held_s: float) -> str:
    """The part of a window that a source with the last ``held_s`` seconds cannot show; empty where it has all."""
    oldest_s = now_s - held_s
    if window.start_s >= now_s:
        return "This time has not come yet."
    if window.end_s <= oldest_s:
        return f"This time is over: the source of the figures keeps the last {duration(held_s)}."
    if window.start_s < oldest_s:
        return f"The beginning of this time is over: the source keeps the last {duration(held_s)}."
    return ""
