"""The Batching & memory page: the limit and its reason, the batch window, and memory."""

from __future__ import annotations

import streamlit as st

from headway_dashboard.analysis import descriptions, engine_panels, newest_values, panels
from headway_dashboard.pages.charts import charts
from headway_dashboard.pages.head import RECENT_S, head, range_only
from headway_dashboard.settings import Settings
from headway_dashboard.sources import Source, StatusSource

_RECENT = (
    *panels.HEAD,
    *panels.IDENTITY,
    panels.LIMIT,
    panels.CEILING,
    engine_panels.PROPOSED,
    engine_panels.PREDICTION_SAMPLES,
)


def show(settings: Settings, source: Source, server_status: StatusSource) -> None:
    """Draw the page."""
    range_s = range_only()
    st.fragment(_live, run_every=settings.refresh_s)(source, server_status, range_s)


def _live(source: Source, server_status: StatusSource, range_s: float) -> None:
    status = server_status.read()
    recent = source.read(_RECENT, RECENT_S)
    head(recent, status)
    st.markdown("#### Seats and batches")
    st.markdown(f"Limit: {descriptions.limit_words(recent, status)}")
    if words := descriptions.prefix_words(status):
        st.markdown(words)
    charts(engine_panels.LIMIT_SECTION, source, range_s, key="headway-limit")
    if words := descriptions.prediction_words(recent):
        st.caption(words)
    st.markdown("#### Memory")
    memory = newest_values.memory_panel(recent)
    both = (memory, engine_panels.RESIDENT_PANEL) if memory is panels.GPU_PANEL else (memory,)
    charts((*both, *engine_panels.MEMORY_SECTION), source, range_s, key="headway-memory")
    if words := descriptions.pause_words(status):
        st.caption(words)
