"""The Server & diagnostics page: the engine's state, deaths and hangs, the warm-up."""

from __future__ import annotations

import streamlit as st

from headway_dashboard.analysis.catalogue import engine_panels
from headway_dashboard.analysis.server import descriptions
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.components import table, tile
from headway_dashboard.components.banner import plain
from headway_dashboard.pages.charts import draw
from headway_dashboard.pages.page_reading import Page, PageReading
from headway_dashboard.sources import SourceReading

_TILE_PX = 150


def _draw(reading: PageReading) -> None:
    newest, status = reading.newest, reading.status
    with st.grid(6, min_column_width=_TILE_PX, gap="xsmall", key="headway-server-tiles"):
        for text in descriptions.server_tiles(newest, status, reading.state):
            tile(text)
    draw(PAGE.panels, reading, key="headway-server")
    _warmup(newest, status)


def _warmup(newest: SourceReading, status: Status) -> None:
    with st.container(border=True, gap="xsmall"):
        st.markdown(
            "**Warm-up**", help="The stages that ran through the engine before it took traffic, and their durations."
        )
        if words := descriptions.warmup_words(status.warmup):
            st.caption(plain(words))
        rows = descriptions.warmup_rows(newest, status.warmup)
        table(rows, "" if words else "No stage has run since the server started.")


PAGE = Page(
    "Server & diagnostics",
    "server",
    _draw,
    figures=(*engine_panels.SERVER_FIGURES, engine_panels.DEATHS_BY_CAUSE),
)
