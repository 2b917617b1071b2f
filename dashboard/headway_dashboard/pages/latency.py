"""The Latency & SLO page: where the time goes, the objectives that were met, and the error budget."""

from __future__ import annotations

import streamlit as st

from headway_dashboard.analysis.catalogue.latency_panels import LATENCY_SECTION
from headway_dashboard.analysis.catalogue.slo_panels import SLO_SECTION, held_words
from headway_dashboard.analysis.server import newest_values
from headway_dashboard.components import table
from headway_dashboard.pages.charts import draw
from headway_dashboard.pages.page_reading import Page, PageReading


def _draw(reading: PageReading) -> None:
    st.markdown("#### Latency")
    table(newest_values.class_rows(reading.newest, reading.view.known))
    draw(LATENCY_SECTION, reading, key="headway-latency")
    st.markdown("#### Objectives and error budget")
    if words := held_words(reading.longest_s):
        st.caption(words)
    draw(SLO_SECTION, reading, key="headway-slo")


PAGE = Page("Latency & SLO", "latency", _draw, csv="latency")
