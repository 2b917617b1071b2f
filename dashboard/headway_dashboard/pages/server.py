"""The Server & diagnostics page: the engine's state, deaths and hangs, the warm-up."""

from __future__ import annotations

import streamlit as st

from headway_dashboard.analysis.catalogue import engine_panels, panels
from headway_dashboard.analysis.server import descriptions
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.analysis.view import Span
from headway_dashboard.components import tile
from headway_dashboard.components.banner import plain
from headway_dashboard.pages.charts import charts
from headway_dashboard.pages.head import head, recent, refresh_s, span_only
from headway_dashboard.settings import Settings
from headway_dashboard.sources import Reading, Source, StatusSource

_TILE_PX = 150
_RECENT = (*panels.HEAD, *engine_panels.SERVER_FIGURES, engine_panels.DEATHS_BY_CAUSE)


def show(settings: Settings, source: Source, server_status: StatusSource) -> None:
    """Draw the page."""
    span = span_only()
    st.fragment(_live, run_every=refresh_s(settings, span))(source, server_status, span)


def _live(source: Source, server_status: StatusSource, span: Span) -> None:
    status = server_status.read()
    newest = recent(source, _RECENT, span)
    state = head(newest, status)
    with st.grid(6, min_column_width=_TILE_PX, gap="xsmall", key="headway-server-tiles"):
        for text in descriptions.server_tiles(newest, status, state):
            tile(text.label, text.value, explanation=text.explanation, note=text.note)
    charts(engine_panels.SERVER_PAGE, source, span, key="headway-server")
    _warmup(newest, status)


def _warmup(newest: Reading, status: Status) -> None:
    with st.container(border=True, gap="xsmall"):
        st.markdown(
            "**Warm-up**", help="The stages that ran through the engine before it took traffic, and their durations."
        )
        if words := descriptions.warmup_words(status.warmup):
            st.caption(plain(words))
        rows = descriptions.warmup_rows(newest, status.warmup)
        if rows:
            st.table([{key: plain(value) for key, value in row.items()} for row in rows], border="horizontal",
                     hide_index=True)  # fmt: skip
        elif not words:
            st.caption("No stage has run since the server started.")
