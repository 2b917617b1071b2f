"""The Overview page: the diagnosis, key figures, the class table, charts, and the last changes."""

from __future__ import annotations

import streamlit as st

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.catalogue.panels import Panel, for_classes
from headway_dashboard.analysis.diagnosis import headline as headlines
from headway_dashboard.analysis.server import newest_values, tile_notes
from headway_dashboard.analysis.server.condition import Condition
from headway_dashboard.analysis.server.engine_steps import without_dead_steps
from headway_dashboard.analysis.server.last_changes import EXPRESSIONS, change_rows
from headway_dashboard.analysis.server.objectives import objective_lines
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.analysis.server.stop_words import limit_order_words
from headway_dashboard.analysis.view import Span, View
from headway_dashboard.components import headline, tile
from headway_dashboard.components.banner import plain
from headway_dashboard.pages.charts import charts
from headway_dashboard.pages.head import head, read, recent, refresh_s, view
from headway_dashboard.settings import Settings
from headway_dashboard.shared import shown_together
from headway_dashboard.sources import Reading, Source, StatusSource

_TILE_PX = 150
#: The last changes are looked for at least so far back, in seconds.
CHANGES_S = 1800.0
PANELS: tuple[Panel, ...] = (panels.QUEUE_PANEL, panels.BATCH_PANEL, panels.TTFT_PANEL, panels.ERROR_PANEL)
_RECENT = (*headlines.EXPRESSIONS, *panels.IDENTITY, *tile_notes.EXPRESSIONS)


def show(settings: Settings, source: Source, server_status: StatusSource) -> None:
    """Draw the page. The controls stand outside the part that refreshes itself."""
    chosen = view(source)
    st.fragment(_live, run_every=refresh_s(settings, chosen.span))(source, server_status, chosen)


def _live(source: Source, server_status: StatusSource, chosen: View) -> None:
    newest, status = facts(source, chosen), server_status.read()
    state = head(newest, status)
    if chosen.span.live:  # a diagnosis is of now: it rests on what the server says of itself
        headline(headlines.headline_of(newest, state.state, status))
    tiles(newest, status, state, chosen)
    if chosen.span.live and (words := limit_order_words(status)):
        st.caption(plain(words))
    _class_table(newest, chosen.known, status if chosen.span.live else Status())
    shown = tuple(newest_values.limited_to(panel, chosen.classes) for panel in PANELS)
    charts(shown, source, chosen.span, key="headway-charts")
    _last_changes(read(source, EXPRESSIONS, Span(max(chosen.range_s, CHANGES_S), chosen.end_s)))


def facts(source: Source, chosen: View) -> Reading:
    """The figures of diagnosis, tiles and class table."""
    wanted = [for_classes(one.expression, chosen.classes) for one in panels.TILES]
    wanted += headlines.by_server() if shown_together(source) else ()
    return without_dead_steps(recent(source, (*_RECENT, *wanted), chosen.span))


def tiles(
    newest: Reading, status: Status, state: Condition, chosen: View, *, columns: int = 4, courses: bool = True
) -> None:
    """Draw the key figures, with their course over the last minutes."""
    with st.grid(columns, min_column_width=_TILE_PX, gap="xsmall", key="headway-tiles"):
        for one in (*panels.TILES[:-1], newest_values.memory_tile(newest)):
            expression = for_classes(one.expression, chosen.classes)
            text = newest_values.tile_text(one, newest, expression, state)
            text = tile_notes.noted(text, one, newest, status, state, chosen)
            course = newest[expression].line() if courses else ()
            tile(text.label, text.value, explanation=text.explanation, course=course, note=text.note, tone=text.tone)


def _class_table(newest: Reading, classes: tuple[str, ...], status: Status) -> None:
    if not classes:
        return
    with st.container(border=True, gap="xsmall"):
        st.markdown("**Classes**", help="The newest numbers of each priority class; rates over the last 30 s.")
        st.table(newest_values.class_rows(newest, classes), border="horizontal", hide_index=True)
        for line in objective_lines(status.objectives, classes):
            st.caption(plain(line))


def _last_changes(history: Reading) -> None:
    rows = change_rows(history)
    with st.container(border=True, gap="xsmall", key="headway-changes"):
        st.markdown("**Last changes**", help="Preset switches and changes of the engine's state, the newest first.")
        if rows:
            st.table([{key: plain(value) for key, value in row.items()} for row in rows], border="horizontal",
                     hide_index=True)  # fmt: skip
        else:
            st.caption("There were none in the time that is recorded.")
