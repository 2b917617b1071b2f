"""The frame around every page: configuration and the navigation."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import streamlit as st

from headway_dashboard.analysis.headline import TITLE
from headway_dashboard.pages import control, engine, overview, requests, server
from headway_dashboard.shared import watched

_ASSETS = Path(__file__).parent / "assets"
_STYLE = """<style>
.stMainBlockContainer { padding-top: 4rem; padding-bottom: 2rem; }
[data-testid="stElementContainer"][data-stale="true"] { opacity: 1 !important; transition: none !important; }
@media (max-width: 640px) { .stMainBlockContainer { padding-left: 0.75rem; padding-right: 0.75rem; } }
</style>"""


def main() -> None:
    """Draw the page that the visitor asked for."""
    st.set_page_config(page_title=TITLE, page_icon=str(_ASSETS / "icon.png"), layout="wide")
    st.logo(str(_ASSETS / "logo.svg"), size="medium")
    st.html(_STYLE)
    found = watched()
    pages = [
        st.Page(partial(overview.show, *found), title="Overview", url_path="overview", default=True),
        st.Page(partial(requests.show, *found), title="Requests", url_path="requests"),
        st.Page(partial(engine.show, *found), title="Batching & memory", url_path="engine"),
        st.Page(partial(server.show, *found), title="Server", url_path="server"),
        st.Page(partial(control.show, *found), title="Control", url_path="control"),
    ]
    st.navigation(pages, position="top").run()
