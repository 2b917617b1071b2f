"""The Batching & memory page: the limit and its reason, the batches, and the memory of GPU and host."""

from __future__ import annotations

from importlib import resources

import streamlit as st

from headway_dashboard.analysis.catalogue import engine_panels, panels
from headway_dashboard.analysis.catalogue.memory_panels import BATCH_SECTION, GPU_BUSY_PANEL, MEMORY_SECTION
from headway_dashboard.analysis.catalogue.panels import Panel
from headway_dashboard.analysis.server import descriptions, newest_values
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.pages.charts import draw
from headway_dashboard.pages.page_reading import Page, PageReading
from headway_dashboard.sources import SourceReading

ALTERNATIVE = (
    "Seven sequences on four seats. static: 15 steps, seats empty 47% of the time; dynamic: 13 steps, seats empty 38% "
    "of the time; continuous: 8 steps, seats empty 0% of the time."
)


def picture() -> str:
    """The three strategies, one above the other, as SVG; readable on white and on dark grey."""
    return (resources.files("headway_dashboard") / "assets" / "batching.svg").read_text(encoding="utf-8")


def _draw(reading: PageReading) -> None:
    newest, status = reading.newest, reading.status
    st.markdown("#### Seats and batches")
    st.markdown(f"Limit: {descriptions.limit_words(newest, status)}")
    if words := descriptions.bound_words(status):
        st.markdown(words)
    if words := descriptions.prefix_words(status):
        st.markdown(words)
    if words := descriptions.step_words(status):
        st.markdown(words)
    draw(_batch_panels(status), reading, key="headway-limit")
    if words := descriptions.prediction_words(newest):
        st.caption(words)
    st.markdown("#### Memory and processors")
    draw(_memory_panels(newest), reading, key="headway-memory")
    if words := descriptions.pause_words(status):
        st.caption(words)


def _batch_panels(status: Status) -> tuple[Panel, ...]:
    """The panels of batches, without the window under a strategy known to have none."""
    windowed = status.strategy in ("", "dynamic")
    return tuple(panel for panel in BATCH_SECTION if windowed or panel is not engine_panels.WINDOW_PANEL)


def _memory_panels(newest: SourceReading) -> tuple[Panel, ...]:
    """The memory of GPU and host where there is a GPU, else of the host alone, under a title that says so."""
    memory = newest_values.memory_panel(newest)
    if memory is panels.GPU_PANEL:
        return (memory, GPU_BUSY_PANEL, engine_panels.RESIDENT_PANEL, *MEMORY_SECTION)
    return (memory, *MEMORY_SECTION)


def _strategies(*_: object) -> None:
    with st.expander("How batches form: seven sequences on four seats"):
        st.image(picture(), alt=ALTERNATIVE)
        st.caption(
            "Static: four begin together, and the next batch waits for the longest of them; its three sequences also "
            "wait for a fourth, until the flush. Dynamic: they go as soon as the first batch has ended. Continuous: a "
            "free seat is filled with the next step, so that the batch follows the load up to the limit."
        )


PAGE = Page(
    "Batching & memory",
    "engine",
    _draw,
    figures=(
        *panels.IDENTITY,
        panels.LIMIT,
        panels.CEILING,
        engine_panels.PROPOSED,
        engine_panels.PREDICTION_SAMPLES,
    ),
    csv="batching",
    foot=_strategies,
)
