"""The Requests & priorities page: arrivals, waits and ends by class, fairness, and the fallback ladder."""

from __future__ import annotations

import streamlit as st

from headway.api import FallbackState
from headway_dashboard.analysis.catalogue import engine_panels, panels
from headway_dashboard.analysis.catalogue.panels import Panel
from headway_dashboard.analysis.catalogue.priority_panels import HOUR_S, LADDER_SECTION, REQUESTS_SECTION
from headway_dashboard.analysis.server import descriptions, newest_values
from headway_dashboard.analysis.units import duration
from headway_dashboard.analysis.view import Span
from headway_dashboard.components.banner import plain
from headway_dashboard.pages.charts import download, draw, history_of
from headway_dashboard.pages.head import class_and_span, head, longest_range_s, recent, refresh_s
from headway_dashboard.settings import Settings
from headway_dashboard.sources import Reading, Source, StatusSource

_TABLE_PX = 420


def show(settings: Settings, source: Source, server_status: StatusSource) -> None:
    """Draw the page."""
    _, classes, span = class_and_span(source)
    download(_limited((*REQUESTS_SECTION, *LADDER_SECTION), classes), source, span, name="requests")
    st.fragment(_live, run_every=refresh_s(settings, span))(source, server_status, classes, span)


def _live(source: Source, server_status: StatusSource, classes: tuple[str, ...], span: Span) -> None:
    status = server_status.read()
    newest = recent(source, (*panels.HEAD, engine_panels.RUNG_STEPS), span)
    head(newest, status)
    requests, ladder = _limited(REQUESTS_SECTION, classes), _limited(LADDER_SECTION, classes)
    history = history_of((*requests, *ladder), source, span)
    draw(requests, history, key="headway-requests")
    if (held_s := longest_range_s(source)) < HOUR_S:
        st.caption(f"The source holds {duration(held_s)}: the error share over an hour covers that at most.")
    st.markdown("#### Fallback ladder")
    if words := descriptions.ladder_words(status.ladder, descriptions.rung(newest)):
        st.markdown(words)
    draw(ladder, history, key="headway-ladder-charts")
    with st.grid(2, min_column_width=_TABLE_PX, gap="small", key="headway-ladder"):
        _steps(newest)
        _moves(status.ladder)


def _limited(shown: tuple[Panel, ...], classes: tuple[str, ...]) -> tuple[Panel, ...]:
    return tuple(newest_values.limited_to(panel, classes) for panel in shown)


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
