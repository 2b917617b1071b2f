"""A chart whose zoom survives a refresh.

``st.plotly_chart`` mounts a new node whenever its data change, which throws the reader's zoom away. This component
keeps its node and hands new data to ``Plotly.react``; plotly.js is served by this process, from the plotly wheel.
"""

from __future__ import annotations

from dataclasses import asdict
from importlib import resources

import streamlit as st

from headway_dashboard.analysis.figures import Figure
from headway_dashboard.server import plotly_url

_plot = st.components.v2.component(
    "headway_live_plot",
    html='<div class="headway-plot" role="img"></div>',
    css=".headway-plot { width: 100%; overflow: hidden; } .headway-plot:focus { outline: none; }",
    js=resources.files("headway_dashboard.components").joinpath("live_plot.js").read_text(encoding="utf-8"),
    isolate_styles=False,
)


def live_plot(figure: Figure, *, key: str) -> None:
    """Draw a figure; the same ``key`` keeps the same node."""
    _plot(key=key, data={"figure": asdict(figure), "plotly_url": plotly_url()})
