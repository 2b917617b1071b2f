"""The page for a screen on a wall: the diagnosis, the tiles and four charts of the Overview, and nothing to press."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from headway_dashboard.analysis.diagnosis import headline as headlines
from headway_dashboard.analysis.server import newest_values
from headway_dashboard.components import headline
from headway_dashboard.components.banner import plain
from headway_dashboard.pages.charts import draw, history_of
from headway_dashboard.pages.head import head, view
from headway_dashboard.pages.overview import PANELS, facts, tiles
from headway_dashboard.settings import Settings
from headway_dashboard.sources import Source, StatusSource

#: The most that a chart takes; the browser makes them lower until all fit on the screen.
_CHART_PX = 300
#: Larger type, no header, and no more margin than the screen needs. All sizes of Streamlit follow that of the page.
STYLE = """<style>
html { font-size: 19px; }
[data-testid="stHeader"], [data-testid="stToolbar"], [data-testid="stTooltipIcon"] svg { display: none; }
.stMainBlockContainer { padding: 0.75rem 1.5rem 0.5rem; }
.stMainBlockContainer > [data-testid="stVerticalBlock"] { gap: 0.5rem; }
</style>"""


def show(settings: Settings, source: Source, server_status: StatusSource) -> None:
    """Draw the page; it goes on by itself."""
    st.html(STYLE)
    st.fragment(_live, run_every=settings.refresh_s)(source, server_status)


def _live(source: Source, server_status: StatusSource) -> None:
    chosen = view(source)
    newest, status = facts(source, chosen), server_status.read()
    state = head(newest, status)
    found = headlines.headline_of(newest, state.state, status)
    headline(replace(found, symptoms=(), remedy=None))
    if found.symptoms:
        st.markdown(" · ".join(plain(text) for text in found.symptoms))
    tiles(newest, status, state, chosen, columns=8, courses=False)
    shown = tuple(newest_values.limited_to(panel, chosen.classes) for panel in PANELS)
    draw(shown, history_of(shown, source, chosen.span), key="headway-wall", height_px=_CHART_PX)
