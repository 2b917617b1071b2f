"""The description of a page, and the data that it draws.

The frame calls ``read_page`` at each refresh: once for itself and the page, or once for each where the page shows
another time or other servers. A CSV download calls it again.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from headway_dashboard.analysis.catalogue import ALL_PANELS, panels
from headway_dashboard.analysis.catalogue.panels import for_classes
from headway_dashboard.analysis.charts import marks
from headway_dashboard.analysis.diagnosis import alerts
from headway_dashboard.analysis.diagnosis import headline as headlines
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.model import Mark
from headway_dashboard.analysis.server import identity, newest_values
from headway_dashboard.analysis.server.condition import Condition
from headway_dashboard.analysis.server.engine_steps import without_dead_steps
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.analysis.view import Span, View
from headway_dashboard.settings import Settings
from headway_dashboard.sources import Health, Source, SourceReading, StatusSource

RECENT_S = 300.0
#: Events are looked for at least so far back, in seconds.
EVENTS_S = 1800.0
#: The questions of the frame above every page, and the condition of the server.
_FRAME = (*headlines.EXPRESSIONS, *identity.EXPRESSIONS, *alerts.EXPRESSIONS)


@dataclass(frozen=True, slots=True)
class PageReading:
    """All figures of a page, and the state of the server by them.

    ``newest`` are the last ``RECENT_S`` seconds up to now, or up to the end of a fixed time; ``history`` is the time of
    the charts; ``events`` reaches back ``EVENTS_S`` at least, as far as the source can answer. ``status`` is of now, at
    a fixed time too; ``state`` says whether the server is reached and its figures are current. ``before`` is the time
    before the last change: None where nothing is compared, or no change is known. ``longest_s`` is how far back the
    source can answer.
    """

    view: View
    status: Status
    state: Condition
    headline: headlines.Headline
    newest: SourceReading
    history: SourceReading
    events: SourceReading
    marks: Sequence[Mark]
    before: SourceReading | None
    longest_s: float


@dataclass(frozen=True, slots=True)
class Page:
    """A page: what it reads beside the frame and its panels, and how it is drawn from that.

    ``figures`` are asked of now, ``of_classes`` for the chosen classes, ``events`` of a longer time. ``csv`` names the
    file with its series; empty for none. ``of_all``: it shows all servers, whichever is chosen. ``foot`` is what stands
    below, and is not drawn again at a refresh.
    """

    title: str
    path: str
    draw: Callable[[PageReading], None] = lambda reading: None
    figures: Sequence[Expression] = ()
    of_classes: Sequence[Expression] = ()
    events: Sequence[Expression] = ()
    csv: str = ""
    of_all: bool = False
    foot: Callable[[Settings, Source, StatusSource], None] | None = None

    @property
    def panels(self) -> Sequence[panels.Panel]:
        """All panels that it may show."""
        return ALL_PANELS.get(self.title, ())


def read_page(page: Page, source: Source, server_status: StatusSource, view: View) -> PageReading:
    """Read everything that a page shows; a second time only to compare with the time before the last change."""
    newest_span = Span(RECENT_S, view.end_s)
    events_span = Span(min(max(view.range_s, EVENTS_S), source.longest_range_s), view.end_s)
    drawn = chain.from_iterable(newest_values.limited_to(panel, view.classes).expressions for panel in page.panels)
    charted = (panels.ENGINE_STATE, *drawn)
    asked: defaultdict[Span, list[Expression]] = defaultdict(list)
    asked[newest_span] += (
        *_FRAME,
        *page.figures,
        *(for_classes(expression, view.classes) for expression in page.of_classes),
    )
    asked[newest_span] += headlines.by_server() if view.several else ()
    asked[view.span] += (*charted, *marks.asked(view.range_s), identity.LAST_CHANGE)
    asked[events_span] += page.events
    readings = {span: _of_time(span, answer) for span, answer in source.read(asked).items()}
    status, history = server_status.read(), readings[view.span]
    condition = newest_values.condition_of(readings[newest_span], view.end_s or time.time())
    found_marks = marks.marks_of(history)
    before = None
    changed_s = marks.last_change_s(found_marks, history[identity.LAST_CHANGE]) if view.before_change else None
    if changed_s is not None:
        compared = Span(history.range_s, changed_s)
        before = _of_time(compared, source.read({compared: charted})[compared])
    return PageReading(
        view,
        status,
        condition,
        headlines.headline_of(readings[newest_span], condition.state, status),
        readings[newest_span],
        history,
        readings[events_span],
        found_marks,
        before,
        source.longest_range_s,
    )


def _of_time(span: Span, found: SourceReading) -> SourceReading:
    """The answer for a span, without steps that no engine made; at a fixed time it ends where the span ends."""
    if span.end_s is not None:
        # Where nothing at all is known of that time, no chart may say that nothing happened in it.
        health = Health() if all(series.empty for series in found.series.values()) else Health(last_ok_s=span.end_s)
        found = replace(found, end_s=span.end_s, health=health)
    return without_dead_steps(found)
