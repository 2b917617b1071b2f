"""Panels drawn side by side, each in a card of its own."""

from __future__ import annotations

from itertools import chain

import streamlit as st

from headway_dashboard.analysis import descriptions, panels
from headway_dashboard.analysis.figures import figure
from headway_dashboard.analysis.panels import Panel
from headway_dashboard.components import live_plot
from headway_dashboard.sources import Source

_COLUMN_PX = 420


def charts(shown: tuple[Panel, ...], source: Source, range_s: float, *, key: str) -> None:
    """Draw the panels over this range, with the moments that matter marked on every one of them."""
    wanted = {panels.PRESET, panels.ENGINE_STATE, *chain.from_iterable(panel.expressions for panel in shown)}
    history = source.read(tuple(wanted), range_s)
    marks = descriptions.marks_of(history)
    with st.grid(2, min_column_width=_COLUMN_PX, gap="small", key=key):
        for panel in shown:
            with st.container(border=True, gap="xsmall"):
                st.markdown(f"**{panel.title}**", help=_help(panel))
                live_plot(figure(panel, history, marks), key=f"plot-{panel.id}")
                st.caption(panel.caption)


def _help(panel: Panel) -> str:
    queries = "\n".join(expression.promql("1m") for expression in panel.expressions)
    return f"{panel.help}\n\nThe same in PromQL:\n```\n{queries}\n```"
