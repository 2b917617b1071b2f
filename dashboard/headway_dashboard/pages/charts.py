"""Panels drawn side by side, each in a card of its own; those that have nothing to show take a line each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import streamlit as st

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.catalogue.panels import Panel
from headway_dashboard.analysis.charts import marks
from headway_dashboard.analysis.charts.comparison import comparison_words
from headway_dashboard.analysis.charts.figure import Figure, figure
from headway_dashboard.analysis.charts.series_csv import series_csv
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.model import Mark
from headway_dashboard.analysis.server import identity
from headway_dashboard.analysis.server.engine_steps import without_dead_steps
from headway_dashboard.analysis.view import Span
from headway_dashboard.components import live_plot
from headway_dashboard.pages.head import comparing, read, show_window
from headway_dashboard.sources import Reading, Source

_COLUMN_PX = 420


@dataclass(frozen=True, slots=True)
class History:
    """What the charts of a page show, read at one moment: the marks, and the time that they are compared with.

    ``before`` is None where nothing is compared, or no change is known; ``compares`` tells these two apart.
    """

    reading: Reading
    marks: Sequence[Mark]
    compares: bool = False
    before: Reading | None = None


def charts(shown: Sequence[Panel], source: Source, span: Span, *, key: str) -> None:
    """Draw the panels over this time, with the moments that matter marked on every one of them."""
    draw(shown, history_of(shown, source, span), key=key)


def history_of(shown: Sequence[Panel], source: Source, span: Span) -> History:
    """What the panels show, read at one moment: all charts that are drawn from it have the same time axis."""
    wanted = tuple({*chain.from_iterable(panel.expressions for panel in shown)})
    reading = _read(source, (*wanted, *marks.asked(span.range_s), identity.LAST_CHANGE), span)
    found = marks.marks_of(reading)
    compares = comparing()
    before = _before(source, wanted, found, reading) if compares else None
    return History(reading, found, compares, before)


def _read(source: Source, wanted: Sequence[Expression], span: Span) -> Reading:
    return without_dead_steps(read(source, (panels.ENGINE_STATE, *wanted), span))


def _before(source: Source, wanted: Sequence[Expression], found: Sequence[Mark], now: Reading) -> Reading | None:
    """The time before the last change, as long as the one that is shown."""
    changed_s = marks.last_change_s(found, now[identity.LAST_CHANGE])
    return None if changed_s is None else _read(source, wanted, Span(now.range_s, changed_s))


def draw(shown: Sequence[Panel], history: History, *, key: str, height_px: int | None = None) -> None:
    """Draw the panels of one section: the charts in cards of one size, then the empty ones in a line each.

    With ``height_px`` for a wall: charts of that height, without captions, and with nothing to press.
    """
    if history.compares:
        st.caption(comparison_words(history.before))
    drawn = [(panel, figure(panel, history.reading, history.marks, history.before)) for panel in shown]
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


def download(shown: Sequence[Panel], source: Source, span: Span, *, name: str) -> None:
    """A button that gives all series of a page as CSV; they are read when it is pressed."""
    st.download_button(
        "CSV",
        lambda: series_csv(shown, history_of(shown, source, span).reading),
        file_name=f"headway-{name}.csv",
        mime="text/csv",
        key=f"csv-{name}",
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
