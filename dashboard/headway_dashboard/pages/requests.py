"""The Requests & priorities page: arrivals, waits and ends by class, fairness, and the fallback ladder."""

from __future__ import annotations

import streamlit as st

from headway.api import FallbackState
from headway_dashboard.analysis.catalogue import engine_panels
from headway_dashboard.analysis.catalogue.priority_panels import HOUR_S, LADDER_SECTION, REQUESTS_SECTION
from headway_dashboard.analysis.server import descriptions
from headway_dashboard.analysis.units import duration
from headway_dashboard.components import table
from headway_dashboard.pages.charts import draw
from headway_dashboard.pages.page_reading import Page, PageReading
from headway_dashboard.sources import SourceReading

_TABLE_PX = 420
_BATCHES_HELP = (
    "Those of the Batch API that run, then the newest that wait, 48 of a server at most. The time left is that of the "
    "other lines at the pace of the last fiftieth of the window."
)


def _draw(reading: PageReading) -> None:
    ladder = reading.status.ladder
    draw(REQUESTS_SECTION, reading, key="headway-requests")
    if reading.longest_s < HOUR_S:
        st.caption(f"The source keeps {duration(reading.longest_s)}: the error share over an hour covers no more.")
    if rows := descriptions.batch_rows(reading.status.batches):
        with st.container(border=True, gap="xsmall", key="headway-batches"):
            st.markdown("**Batches that have not ended**", help=_BATCHES_HELP)
            table(rows)
    st.markdown("#### Fallback ladder")
    if words := descriptions.ladder_words(ladder, descriptions.rung(reading.newest)):
        st.markdown(words)
    draw(LADDER_SECTION, reading, key="headway-ladder-charts")
    with st.grid(2, min_column_width=_TABLE_PX, gap="small", key="headway-ladder"):
        _steps(reading.newest)
        _moves(ladder)


def _steps(recent: SourceReading) -> None:
    with st.container(border=True, gap="xsmall", height="stretch"):
        st.markdown("**Steps of the ladder**", help="Moves to each rung since the server started, by trigger.")
        table(descriptions.step_rows(recent), "The ladder has not moved since the server started.")


def _moves(ladder: FallbackState) -> None:
    with st.container(border=True, gap="xsmall", height="stretch"):
        st.markdown("**Last moves of the ladder**", help="The newest first. Readable with a token only.")
        known = "There were none since the server started."
        unknown = "The dashboard needs a token of the server to show them."
        table(descriptions.move_rows(ladder), known if ladder.rung else unknown)


PAGE = Page("Requests & priorities", "requests", _draw, figures=(engine_panels.RUNG_STEPS,), csv="requests")
