"""The script of every page: configuration, the frame, and the navigation."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import streamlit as st

from headway_dashboard.analysis.diagnosis.headline import TITLE
from headway_dashboard.long_lived import drawn
from headway_dashboard.pages import control, engine, fleet, frame, latency, overview, requests, server, tenants, wall
from headway_dashboard.pages.head import on_a_wall
from headway_dashboard.pages.page_reading import Page
from headway_dashboard.settings import Settings
from headway_dashboard.shared import instance_names, watched
from headway_dashboard.sources import Source, StatusSource

_ASSETS = Path(__file__).parent / "assets"
#: Streamlit fades all that a running refresh has not redrawn yet: element containers, headers of expanders, and tabs.
#: The frame says how old the figures are. The chart of a tile stands at its foot, with or without a note above.
STYLE = """<style>
.stMainBlockContainer { padding: 4.1rem 2rem 2rem; }
.stMainBlockContainer > [data-testid="stVerticalBlock"] { gap: 0.5rem; }
[data-testid="stElementContainer"][data-stale="true"],
[data-testid="stExpander"] summary,
[data-testid="stExpander"] > div,
[data-testid="stTabs"] [role="tablist"],
[data-testid="stTab"]:not([data-disabled]) { opacity: 1 !important; transition: none !important; }
[data-testid="stMetric"] { display: flex; flex-direction: column; justify-content: space-between; height: 100%; }
[data-testid="stMetricDelta"], [data-testid="stMetricDelta"] * { white-space: normal !important; overflow: visible; }
[class*="st-key-headway-band-"] { padding: 0.5rem 0.9rem; border-radius: 6px; border-left: 5px solid #8a93a3;
  background: rgba(138, 147, 163, 0.10); }
.st-key-headway-band-degraded { border-color: #e08a1e; background: rgba(224, 138, 30, 0.12); }
.st-key-headway-band-overloaded, .st-key-headway-band-down { border-color: #d1495b;
  background: rgba(209, 73, 91, 0.12); }
[class*="st-key-headway-band-"] h4 { padding: 0; font-size: 1.15rem; }
[class*="st-key-headway-band-"] [data-testid="stMarkdownContainer"],
[class*="st-key-headway-band-"] [data-testid="stMarkdownContainer"] p { margin-bottom: 0; }
.st-key-headway-tiles [data-testid="stMetric"] { position: relative; padding: 0.3rem 0.6rem; min-height: 6.2rem;
  overflow: hidden; }
.st-key-headway-tiles [data-testid="stMetric"] > div:first-child { padding: 0; z-index: 1; }
.st-key-headway-tiles [data-testid="stMetric"] > div:nth-child(2) { position: absolute; inset: auto 0 0; height: 28px;
  opacity: 0.5; }
.st-key-headway-tiles [data-testid="stMetricChart"] { position: absolute; bottom: -1.4rem; transform: scaleY(0.5);
  transform-origin: bottom; }
.st-key-headway-tiles [data-testid="stMetricValue"] { font-size: 1.3rem; }
.st-key-headway-tiles [data-testid="stMetricDelta"] { font-size: 0.75rem; }
.st-key-headway-classes { padding: 0.3rem 0.8rem; }
@media (min-width: 900px) {
  .st-key-headway-bar > div > div { display: flex; flex-direction: row; align-items: center; gap: 0.4rem; }
  .st-key-headway-bar [data-testid="stWidgetLabel"] { margin: 0; min-height: 0; white-space: nowrap; }
  .st-key-headway-bar [data-testid="stSelectbox"] > div:last-child { flex: 1 1 0; min-width: 0; width: auto; }
}
@media (max-width: 640px) {
  .stMainBlockContainer { padding-left: 0.75rem; padding-right: 0.75rem; }
  .st-key-headway-bar { gap: 0.4rem; }
  .st-key-headway-bar [data-testid="stWidgetLabel"] { position: absolute; width: 1px; height: 1px; min-height: 0;
    overflow: hidden; clip-path: inset(50%); }
  [data-testid="stLayoutWrapper"]:has(> .st-key-headway-headline),
  [data-testid="stLayoutWrapper"]:has(> .st-key-headway-classes) { order: -1; }
  .st-key-headway-classes { padding: 0; border: 0; }
}
</style>"""


def main() -> None:
    """Draw the frame and the page that the visitor asked for."""
    # Drawings go into the page itself; another picture would be a file that a new run of the page may have removed.
    st.set_page_config(page_title=TITLE, page_icon=str(_ASSETS / "icon.svg"), layout="wide")
    st.logo(str(_ASSETS / "logo.svg"), size="medium")
    st.html(STYLE)
    found = watched()
    if on_a_wall():
        st.html(wall.STYLE)
        chosen = st.navigation([_page(wall.PAGE, found)], position="hidden")
    else:
        chosen = st.navigation(_pages(found), position="top")
    frame.bar(found[1])
    chosen.run()
    drawn()


def _pages(found: tuple[Settings, Source, StatusSource]) -> list[st.Page]:
    """The pages in their order. The one that compares servers is in the menu where there are several."""
    settings, source, _ = found
    several = bool(settings.others or instance_names(source) or fleet.routes(source))
    return [_page(page, found, page is not fleet.PAGE or several) for page in PAGES]


def _page(page: Page, found: tuple[Settings, Source, StatusSource], listed: bool = True) -> st.Page:
    return st.Page(
        partial(frame.show, page, *found),
        title=page.title,
        url_path=page.path,
        default=page.title == PAGES[0].title,
        visibility="visible" if listed else "hidden",
    )


#: The pages in the order of the menu.
PAGES = (overview.PAGE, fleet.PAGE, requests.PAGE, tenants.PAGE, latency.PAGE, engine.PAGE, control.PAGE, server.PAGE)
