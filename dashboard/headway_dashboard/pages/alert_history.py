"""The marks of alerts on the charts, found once for all visitors and kept for some seconds.

To look for them means to judge every condition at every instant of the range: a quarter of what a page costs, if each
tab did it at each refresh.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

import streamlit as st

from headway_dashboard.analysis.charts import marks
from headway_dashboard.analysis.diagnosis import alerts
from headway_dashboard.analysis.queries.model import Mark
from headway_dashboard.analysis.view import Span
from headway_dashboard.pages.head import read
from headway_dashboard.sources import ChosenSource, Source

#: So late may the mark of an alert be that begins to hold; the line above the page shows it at once.
KEPT_S = 10.0
#: Over a longer time the points are further apart than the conditions of the alerts look back.
UP_TO_S = 6 * 3600.0

_Key = tuple[str, float, float | None]


class AlertHistory:
    """The marks of each range of each source, with the time at which they were found."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._found: WeakKeyDictionary[Source, dict[_Key, tuple[float, list[Mark]]]] = WeakKeyDictionary()

    def marks(self, source: Source, span: Span) -> list[Mark]:
        """The onsets of alerts in a time; none beyond some hours."""
        if span.range_s > UP_TO_S:
            return []
        whole, name = (source.whole, source.name) if isinstance(source, ChosenSource) else (source, "")
        known, key, now_s = self._found.setdefault(whole, {}), (name, span.range_s, span.end_s), self._clock_s()
        for old in [one for one, (found_s, _) in known.items() if now_s - found_s >= KEPT_S]:
            known.pop(old, None)
        if key not in known:
            known[key] = (now_s, _look(source, span))
        return known[key][1]


@st.cache_resource(show_spinner=False)
def alert_history() -> AlertHistory:
    """The one of this process."""
    return AlertHistory()


def _look(source: Source, span: Span) -> list[Mark]:
    """The conditions look back, so that more is read than is shown."""
    longer = Span(span.range_s + alerts.RANGE_S, span.end_s)
    return marks.alert_marks(read(source, alerts.EXPRESSIONS, longer), span.range_s)
