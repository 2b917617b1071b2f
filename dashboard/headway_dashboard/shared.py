"""The sources that all visitors of a process share.

From the start of the process, not from the first visit: a visitor sees what happened before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import streamlit as st

from headway_dashboard.settings import Settings
from headway_dashboard.sources import FallbackSource, PrometheusSource, ScrapeSource, Source, StatusSource


@st.cache_resource(show_spinner=False, on_release=lambda source: source.close())
def source_for(url: str, prometheus_url: str | None, refresh_s: float) -> Source:
    """The source that all visitors of this process share. No token is part of its key."""
    scrape = ScrapeSource(url, interval_s=refresh_s)
    if prometheus_url is None:
        return scrape
    return FallbackSource(PrometheusSource(prometheus_url, interval_s=refresh_s), scrape)


@st.cache_resource(show_spinner=False, on_release=lambda server_status: server_status.close())
def telling_for(url: str, refresh_s: float, _token: str | None) -> StatusSource:
    """The server's status, for all visitors. The underscore keeps the token out of the key."""
    return StatusSource(url, _token, interval_s=refresh_s)


def watched() -> tuple[Settings, Source, StatusSource]:
    """What this process watches, as every page needs it."""
    settings = Settings.from_environment()
    source = source_for(settings.url, settings.prometheus_url, settings.refresh_s)
    return settings, source, telling_for(settings.url, settings.refresh_s, settings.token)


@asynccontextmanager
async def watching(app: st.App) -> AsyncIterator[None]:
    """Begin to watch when the web server starts. The first reading may wait a second, so not on its event loop."""
    _, source, _ = watched()
    begun = asyncio.create_task(asyncio.to_thread(source.read, (), 0.0))
    yield
    await begun
