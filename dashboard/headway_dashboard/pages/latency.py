"""The Latency & SLO page: where the time goes, the objectives that were met, and the error budget."""

from __future__ import annotations

import streamlit as st

from headway_dashboard.analysis.catalogue import ALL_PANELS
from headway_dashboard.analysis.catalogue.latency_panels import LATENCY_SECTION
from headway_dashboard.analysis.catalogue.panels import Panel
from headway_dashboard.analysis.catalogue.slo_panels import SLO_SECTION, held_words
from headway_dashboard.analysis.server import newest_values
from headway_dashboard.analysis.view import Span
from headway_dashboard.pages.charts import download, draw, history_of
from headway_dashboard.pages.head import class_and_span, longest_range_s, refresh_s
from headway_dashboard.settings import Settings
from headway_dashboard.sources import Source, StatusSource

TITLE = "Latency & SLO"


def show(settings: Settings, source: Source, server_status: StatusSource) -> None:
    """Draw the page."""
    _, classes, span = class_and_span(source)
    download(_limited(ALL_PANELS[TITLE], classes), source, span, name="latency")
    st.fragment(_live, run_every=refresh_s(settings, span))(source, classes, span)


def _live(source: Source, classes: tuple[str, ...], span: Span) -> None:
    times, levels = _limited(LATENCY_SECTION, classes), _limited(SLO_SECTION, classes)
    history = history_of((*times, *levels), source, span)
    st.markdown("#### Latency")
    draw(times, history, key="headway-latency")
    st.markdown("#### Objectives and error budget")
    if words := held_words(longest_range_s(source)):
        st.caption(words)
    draw(levels, history, key="headway-slo")


def _limited(shown: tuple[Panel, ...], classes: tuple[str, ...]) -> tuple[Panel, ...]:
    return tuple(newest_values.limited_to(panel, classes) for panel in shown)
