"""The frame around every page: configuration, one source for the whole process, and the navigation."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import streamlit as st

from headway_dashboard.settings import Settings
from headway_dashboard.sources import FallbackSource, PrometheusSource, ScrapeSource, Source
from headway_dashboard.views import control, overview

_ASSETS = Path(__file__).parent / "assets"
_STYLE = """<style>
.stMainBlockContainer { padding-top: 4rem; padding-bottom: 2rem; }
@media (max-width: 640px) { .stMainBlockContainer { padding-left: 0.75rem; padding-right: 0.75rem; } }
</style>"""


@st.cache_resource(show_spinner=False, on_release=lambda source: source.close())
def source_for(url: str, prometheus_url: str | None, refresh_s: float) -> Source:
    """The source that all visitors of this process share. No token is part of its key."""
    scrape = ScrapeSource(url, interval_s=refresh_s)
    if prometheus_url is None:
        return scrape
    return FallbackSource(PrometheusSource(prometheus_url, interval_s=refresh_s), scrape)


def watched() -> tuple[Settings, Source]:
    """What this process watches, as every page needs it."""
    settings = Settings.from_environment()
    return settings, source_for(settings.url, settings.prometheus_url, settings.refresh_s)


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
