"""The Server page: the engine's state, deaths and hangs, and the warm-up."""

from __future__ import annotations

import streamlit as st

from headway_dashboard.analysis import descriptions, engine_panels, panels
from headway_dashboard.analysis.status import Status
from headway_dashboard.components import tile
from headway_dashboard.components.banner import plain
from headway_dashboard.pages.charts import charts
from headway_dashboard.pages.head import RECENT_S, head, range_only
from headway_dashboard.settings import Settings
from headway_dashboard.sources import Reading, Source, StatusSource

_TILE_PX = 150


def show(settings: Settings, source: Source, server_status: StatusSource) -> None:
    """Draw the page."""
    range_s = range_only()
    st.fragment(_live, run_every=settings.refresh_s)(source, server_status, range_s)


def _live(source: Source, server_status: StatusSource, range_s: float) -> None:
    status = server_status.read()
    recent = source.read((*panels.HEAD, *engine_panels.SERVER_FIGURES), RECENT_S)
    state = head(recent, status)
    with st.grid(6, min_column_width=_TILE_PX, gap="xsmall", key="headway-server-tiles"):
        for text in descriptions.server_tiles(recent, status, state):
            tile(text.label, text.value, explanation=text.explanation, note=text.note)
    charts(engine_panels.SERVER_PAGE, source, range_s, key="headway-server")
    _warmup(recent, status)


def _warmup(recent: Reading, status: Status) -> None:
    with st.container(border=True, gap="xsmall"):
        st.markdown(
            "**Warm-up**", help="The stages that ran through the engine before it took traffic, and their durations."
        )
        if words := descriptions.warmup_words(status.warmup):
            st.caption(plain(words))
        rows = descriptions.warmup_rows(recent, status.warmup)
        if rows:
            st.table([{key: plain(value) for key, value in row.items()} for row in rows], border="horizontal",
                     hide_index=True)  # fmt: skip
        elif not words:
            st.caption("No stage has run since the server started.")
