"""The Overview page: the diagnosis, key figures, charts, and the class table."""

from __future__ import annotations

import streamlit as st

from headway_dashboard.analysis import newest_values, panels
from headway_dashboard.analysis.expressions import Expression
from headway_dashboard.analysis.headline import headline_of, tab_title
from headway_dashboard.analysis.panels import Panel, for_classes
from headway_dashboard.components import headline, tile
from headway_dashboard.pages.charts import charts
from headway_dashboard.pages.head import RECENT_S, class_and_range, head
from headway_dashboard.settings import Settings
from headway_dashboard.sources import Reading, Source, StatusSource

_TILE_PX = 150

_ALWAYS: tuple[Expression, ...] = (
    *panels.FACTS,
    *panels.FACTS_BY_CLASS,
    *panels.HEAD,
    *panels.IDENTITY,
    *panels.CLASS_TABLE,
    panels.ERRORS_BY_CAUSE,
)


def show(settings: Settings, source: Source, server_status: StatusSource) -> None:
    """Draw the page. The controls stand outside the part that refreshes itself."""
    known, classes, range_s = class_and_range(source)
    live = st.fragment(_live, run_every=settings.refresh_s)
    live(source, server_status, known, classes, range_s)


def _live(
    source: Source, server_status: StatusSource, known: tuple[str, ...], classes: tuple[str, ...], range_s: float
) -> None:
    tiles = [(one, for_classes(one.expression, classes)) for one in panels.TILES]
    recent = source.read((*_ALWAYS, *(expression for _, expression in tiles)), RECENT_S)
    if (found := newest_values.classes_of(recent)) and found != known:
        st.rerun()
    status = server_status.read()
    state = head(recent, status)
    diagnosed = headline_of(recent, state.state, status)
    st.set_page_config(page_title=tab_title(diagnosed.severity))
    headline(diagnosed)
    with st.grid(4, min_column_width=_TILE_PX, gap="xsmall", key="headway-tiles"):
        for one, expression in tiles:
            chosen = one
            if one.id == "memory":
                chosen = newest_values.memory_tile(recent)
                expression = chosen.expression
            text = newest_values.tile_text(chosen, recent, expression, state)
            course = recent[expression].line()
            tile(text.label, text.value, explanation=text.explanation, course=course, note=text.note)
    _charts(source, recent, classes, range_s)
    _class_table(recent, known)


def _charts(source: Source, recent: Reading, classes: tuple[str, ...], range_s: float) -> None:
    six: tuple[Panel, ...] = (
        panels.BATCH_PANEL,
        panels.QUEUE_PANEL,
        panels.TTFT_PANEL,
        panels.ERROR_PANEL,
        panels.KV_PANEL,
        newest_values.memory_panel(recent),
    )
    charts(tuple(newest_values.limited_to(panel, classes) for panel in six), source, range_s, key="headway-charts")


def _class_table(recent: Reading, classes: tuple[str, ...]) -> None:
    if not classes:
        return
    with st.container(border=True, gap="xsmall"):
        st.markdown("**Classes**", help="The newest numbers of each priority class; rates over the last 30 s.")
        st.table(newest_values.class_rows(recent, classes), border="horizontal", hide_index=True)
