"""The Server & diagnostics page: the engine's state, the sources, the last warnings, the warm-up, the configuration."""

from __future__ import annotations

import time

import streamlit as st

from headway_dashboard.analysis.catalogue import engine_panels
from headway_dashboard.analysis.server import descriptions, source_rows
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.components import table, tile
from headway_dashboard.components.banner import plain
from headway_dashboard.pages.charts import draw
from headway_dashboard.pages.page_reading import Page, PageReading
from headway_dashboard.sources import SourceReading

_TILE_PX = 150
_CHOOSE = "Each server has its own: choose one of them in the bar."
_NOT_KNOWN = "The server does not say it: an admin token is needed, or a newer server."


def _draw(reading: PageReading) -> None:
    newest, status = reading.newest, reading.status
    with st.grid(6, min_column_width=_TILE_PX, gap="xsmall", key="headway-server-tiles"):
        for text in descriptions.server_tiles(newest, status, reading.state):
            tile(text)
    _sources(newest, status)
    _warnings(status)
    draw(PAGE.panels, reading, key="headway-server")
    _warmup(newest, status)
    _configuration(status)


def _sources(newest: SourceReading, status: Status) -> None:
    with st.container(border=True, gap="xsmall", key="headway-sources"):
        st.markdown("**Sources**", help="The sources of the figures on these pages, and their present state.")
        table(source_rows.source_rows(newest, status, time.time()))


def _warnings(status: Status) -> None:
    with st.container(border=True, gap="xsmall", key="headway-warnings"):
        st.markdown(
            "**Last warnings of the log**",
            help="Warnings and errors of the process that serves requests, since its start and without tracebacks. "
            "Lines of the engine's own process are in the log only.",
        )
        rows = source_rows.warning_rows(status.warnings)
        table(rows, "There were none." if status.known and not status.servers else _unknown(status))


def _configuration(status: Status) -> None:
    with st.expander("Configuration", key="headway-configuration"):
        st.markdown("**Started with**", help="Arguments and variables of the process; possible secrets are hidden.")
        if words := source_rows.launch_words(status.launch):
            st.code(words, language="bash", wrap_lines=True)
        else:
            st.caption(_unknown(status))
        st.markdown("**Settings in force**", help="The settings of the preset, with changes by commands and trials.")
        table(source_rows.setting_rows(status.settings), _unknown(status))


def _unknown(status: Status) -> str:
    return _CHOOSE if status.servers else _NOT_KNOWN


def _warmup(newest: SourceReading, status: Status) -> None:
    with st.container(border=True, gap="xsmall"):
        st.markdown("**Warm-up**", help="The stages of the warm-up before traffic, and their durations.")
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
