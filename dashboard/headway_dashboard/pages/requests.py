"""The Requests page: queue and waits by class, and the fallback ladder."""

from __future__ import annotations

import streamlit as st

from headway.api import FallbackState
from headway_dashboard.analysis import descriptions, engine_panels, newest_values, panels
from headway_dashboard.components.banner import plain
from headway_dashboard.pages.charts import charts
from headway_dashboard.pages.head import RECENT_S, class_and_range, head
from headway_dashboard.settings import Settings
from headway_dashboard.sources import Reading, Source, StatusSource

_TABLE_PX = 420


def show(settings: Settings, source: Source, server_status: StatusSource) -> None:
    """Draw the page."""
    _, classes, range_s = class_and_range(source)
    st.fragment(_live, run_every=settings.refresh_s)(source, server_status, classes, range_s)


def _live(source: Source, server_status: StatusSource, classes: tuple[str, ...], range_s: float) -> None:
    status = server_status.read()
    recent = source.read((*panels.HEAD, engine_panels.RUNG_STEPS), RECENT_S)
    head(recent, status)
    if words := descriptions.ladder_words(status.ladder, descriptions.rung(recent)):
        st.markdown(words)
    shown = tuple(newest_values.limited_to(panel, classes) for panel in engine_panels.REQUESTS_PAGE)
    charts(shown, source, range_s, key="headway-requests")
    with st.grid(2, min_column_width=_TABLE_PX, gap="small", key="headway-ladder"):
        _steps(recent)
        _moves(status.ladder)


def _steps(recent: Reading) -> None:
    with st.container(border=True, gap="xsmall", height="stretch"):
        st.markdown(
            "**Steps of the ladder**", help="How often it moved to each rung since the server started, by trigger."
        )
        rows = descriptions.step_rows(recent)
        if rows:
            st.table(rows, border="horizontal", hide_index=True)
        else:
            st.caption("The ladder has not moved since the server started.")


def _moves(ladder: FallbackState) -> None:
    with st.container(border=True, gap="xsmall", height="stretch"):
        st.markdown("**Last moves of the ladder**", help="The newest first. Readable with a token only.")
        rows = descriptions.move_rows(ladder)
        if rows:
            st.table([{key: plain(value) for key, value in row.items()} for row in rows], border="horizontal",
                     hide_index=True)  # fmt: skip
        elif ladder.rung:
            st.caption("There were none since the server started.")
        else:
            st.caption("They are shown when the dashboard has a token of the server.")
