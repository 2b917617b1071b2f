"""The sources that all visitors of a process share.

From the start of the process, not from the first visit: a visitor sees what happened before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import streamlit as st

from headway_dashboard.analysis.server.instances import ALL_INSTANCES, INSTANCE, instance_name
from headway_dashboard.analysis.view import Span
from headway_dashboard.long_lived import freeze_when_drawn
from headway_dashboard.settings import MAX_SERVERS, Settings
from headway_dashboard.sources import (
    ChosenSource,
    FallbackSource,
    MergedStatusSource,
    PrometheusSource,
    ScrapeSource,
    ServerStatusSource,
    Source,
    StatusSource,
    TenantUsageSource,
    read,
)


@st.cache_resource(show_spinner=False, max_entries=2, on_release=lambda source: source.close())
def source_for(
    urls: tuple[str, ...], prometheus_url: str | None, refresh_s: float, token_id: str, _token: str | None
) -> Source:
    """The source that all visitors of this process share, with Prometheus and without. The underscore keeps the token
    out of the key.
    """
    scrape = ScrapeSource(*urls, token=_token, interval_s=refresh_s)
    if prometheus_url is None:
        return scrape
    names = tuple(instance_name(url) for url in urls)
    return FallbackSource(PrometheusSource(prometheus_url, instances=names, interval_s=refresh_s), scrape)


@st.cache_resource(show_spinner=False, on_release=lambda server_status: server_status.close())
def telling_for(url: str, refresh_s: float, token_id: str, _token: str | None) -> ServerStatusSource:
    """The server's status, for all visitors. The underscore keeps the token out of the key."""
    return ServerStatusSource(url, _token, interval_s=refresh_s)


@st.cache_resource(show_spinner=False, max_entries=4 * MAX_SERVERS, on_release=lambda usage: usage.close())
def usage_for(url: str, span: Span, tenant: str | None, token_id: str, _token: str | None) -> TenantUsageSource:
    """Use by tenant, shared by all visitors of the same range. The underscore keeps the token out of the cache key."""
    return TenantUsageSource(url, _token, span, tenant)


def watched() -> tuple[Settings, Source, StatusSource]:
    """The settings and the sources of a visitor: of all servers, or of the one that the address of the page names."""
    return watched_at(Settings.from_environment(), chosen_instance())


def watched_at(settings: Settings, name: str) -> tuple[Settings, Source, StatusSource]:
    """The servers of these settings, or the one of this name. A name that none of them has counts as not given.

    Prometheus may know servers by other names than their addresses; such a server can be looked at, but not changed.
    """
    token = settings.token_id, settings.token
    source = source_for(settings.urls, settings.prometheus_url, settings.refresh_s, *token)
    url = next((url for url in settings.urls if instance_name(url) == name), None)
    if url is not None and settings.others:
        return settings.of(url), ChosenSource(source, name), telling_for(url, settings.refresh_s, *token)
    told = MergedStatusSource(
        {instance_name(url): telling_for(url, settings.refresh_s, *token) for url in settings.urls}
    )
    if url is None and name and name in read(source, (), 0.0).instances:
        return settings, ChosenSource(source, name), told
    return settings, source, told


def instance_names(source: Source) -> tuple[str, ...]:
    """The names of the servers to choose from; none where there is only one."""
    whole = source.whole if isinstance(source, ChosenSource) else source
    names = tuple(read(whole, (), 0.0).instances)
    return names if len(names) > 1 else ()


def chosen_instance() -> str:
    """The name of the server that the bar chooses; empty for all."""
    chosen = st.session_state.get(INSTANCE)
    if chosen is None:
        chosen = next(iter(st.query_params.get_all(INSTANCE)), "")
    return "" if chosen == ALL_INSTANCES else str(chosen)


@asynccontextmanager
async def watching(app: st.App) -> AsyncIterator[None]:
    """Begin to watch when the web server starts. The first reading may wait a second, so not on its event loop."""
    freeze_when_drawn()
    _, source, _ = watched_at(Settings.from_environment(), "")
    begun = asyncio.create_task(asyncio.to_thread(read, source, (), 0.0))
    yield
    await begun
