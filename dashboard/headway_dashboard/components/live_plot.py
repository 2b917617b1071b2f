"""A chart whose zoom survives a refresh.

``st.plotly_chart`` mounts a new node whenever its data change, which throws the reader's zoom away. This component
keeps its node and hands new data to ``Plotly.react``; plotly.js is served by this process, from the plotly wheel.
"""

from __future__ import annotations

from dataclasses import asdict
from importlib import resources
from typing import Any

import streamlit as st

from headway_dashboard.analysis.charts.figure import Figure
from headway_dashboard.analysis.window import Window, window_between
from headway_dashboard.server import plotly_url

_CSS = """
.headway-chart { position: relative; }
.headway-plot { width: 100%; overflow: hidden; }
.headway-plot:focus { outline: none; }
.headway-plot:focus-visible, .headway-keep:focus-visible { outline: 2px solid var(--st-primary-color); }
.headway-keep {
  position: absolute; top: 0; right: 2.5rem; z-index: 2; padding: 0.2rem 0.6rem; cursor: pointer;
  border: 1px solid var(--st-primary-color); border-radius: var(--st-button-radius, 6px);
  background: var(--st-background-color); color: var(--st-text-color); font: inherit; font-size: 0.8rem;
}
.headway-keep[hidden] { display: none; }
"""

_plot = st.components.v2.component(
    "headway_live_plot",
    html='<div class="headway-chart"><div class="headway-plot" role="figure" tabindex="0"></div>'
    '<button class="headway-keep" type="button" hidden>Show this time on all pages</button></div>',
    css=_CSS,
    js=resources.files("headway_dashboard.components").joinpath("live_plot.js").read_text(encoding="utf-8"),
    isolate_styles=False,
)


def live_plot(figure: Figure, *, key: str, wall_px: int | None = None) -> Window | None:
    """Draw a figure; the same ``key`` keeps the same node. Its summary is the accessible name of the chart.

    Returns the time that the reader has dragged over and asked to be shown on all pages; None otherwise. With
    ``wall_px`` the chart has that height and larger type, and nothing in it can be pressed.
    """
    data = {"figure": asdict(figure), "plotly_url": plotly_url(), "wall_px": wall_px}
    return _window(_plot(key=key, data=data, on_window_change=_ignore).window)


def _ignore() -> None:
    """The chosen time is in what the component returns."""


def _window(chosen: Any) -> Window | None:
    """The window between two instants in milliseconds; a browser may send anything."""
    if not isinstance(chosen, (list, tuple)) or len(chosen) != 2:
        return None
    numbers = [number for number in chosen if isinstance(number, (int, float)) and not isinstance(number, bool)]
    return window_between(numbers[0] / 1000, numbers[1] / 1000) if len(numbers) == 2 else None
