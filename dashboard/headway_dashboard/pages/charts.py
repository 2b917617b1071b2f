"""Panels side by side, each in its own card; an empty panel takes one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from headway_dashboard.analysis.catalogue.panels import Panel
from headway_dashboard.analysis.charts.comparison import comparison_words
from headway_dashboard.analysis.charts.figure import Figure, figure
from headway_dashboard.analysis.charts.series_csv import series_csv
from headway_dashboard.analysis.server import newest_values
from headway_dashboard.components import live_plot
from headway_dashboard.pages.head import show_window
from headway_dashboard.pages.page_reading import Page, PageReading

_COLUMN_PX = 420


def draw(shown: Sequence[Panel], reading: PageReading, *, key: str, height_px: int | None = None) -> None:
    """Draw the panels of one section: the charts in cards of one size, then the empty ones in a line each.

    With ``height_px`` for a wall: charts of that height, without captions, and with nothing to press.
    """
    if reading.view.before_change:
        st.caption(comparison_words(reading.before))
    limited = [newest_values.limited_to(panel, reading.view.classes) for panel in shown]
    drawn = [(panel, figure(panel, reading.history, reading.marks, reading.before)) for panel in limited]
    with st.grid(2, min_column_width=_COLUMN_PX, gap="small", key=key):
        for panel, chart in drawn:
            if not chart.empty:
                _card(panel, chart, height_px)
    nothing = [(panel, chart.empty) for panel, chart in drawn if chart.empty]
    if nothing:
        with st.container(border=True, gap="xxsmall", key=f"{key}-empty"):
            for panel, why in nothing:
                with st.container(key=f"panel-{panel.id}"):
                    st.markdown(f"**{panel.title}** :small[{why}]", help=_help(panel))


def download(page: Page, read: Callable[[], PageReading]) -> None:
    """A button that gives all series of a page as CSV; they are read when it is pressed."""

    def written() -> str:
        reading = read()
        return series_csv(
            [newest_values.limited_to(panel, reading.view.classes) for panel in page.panels], reading.history
        )

    st.download_button(
        "CSV",
        written,
        file_name=f"headway-{page.csv}.csv",
        mime="text/csv",
        key=f"csv-{page.csv}",
        on_click="ignore",
        help="Every series of this page over the range, with times in UTC and in base units.",
    )


def _card(panel: Panel, chart: Figure, height_px: int | None) -> None:
    with st.container(border=True, gap="xsmall", height="stretch", key=f"panel-{panel.id}"):
        if height_px is not None:
            st.markdown(f"**{panel.title}**")
            live_plot(chart, key=f"plot-{panel.id}", wall_px=height_px)
            return
        st.markdown(f"**{panel.title}**", help=_help(panel))
        if (chosen := live_plot(chart, key=f"plot-{panel.id}")) is not None:
            show_window(chosen)
            st.rerun()
        st.caption(panel.caption)


def _help(panel: Panel) -> str:
    queries = "\n".join(expression.promql("1m") for expression in panel.expressions)
    return f"{panel.help}\n\nThe same in PromQL:\n```\n{queries}\n```"
