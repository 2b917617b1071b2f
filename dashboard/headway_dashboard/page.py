"""The frame around every page: configuration and the navigation."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import streamlit as st

from headway_dashboard.shared import watched
from headway_dashboard.views import control, overview

_ASSETS = Path(__file__).parent / "assets"
_STYLE = """<style>
.stMainBlockContainer { padding-top: 4rem; padding-bottom: 2rem; }
@media (max-width: 640px) { .stMainBlockContainer { padding-left: 0.75rem; padding-right: 0.75rem; } }
</style>"""


def main() -> None:
    """Draw the page that the visitor asked for."""
    st.set_page_config(page_title="Headway", page_icon=str(_ASSETS / "icon.png"), layout="wide")
    st.logo(str(_ASSETS / "logo.svg"), size="medium")
    st.html(_STYLE)
    settings, source = watched()
    pages = [
        st.Page(partial(overview.show, settings, source), title="Overview", url_path="overview", default=True),
        st.Page(partial(control.show, settings, source), title="Control", url_path="control"),
    ]
    st.navigation(pages, position="top").run()
