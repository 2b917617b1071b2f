"""The choice of the server that the page Control changes: always one of several."""

from __future__ import annotations

import streamlit as st

from headway_dashboard.analysis.server.instances import instance_name
from headway_dashboard.components.banner import plain
from headway_dashboard.settings import Settings
from headway_dashboard.shared import source_for, watched_at
from headway_dashboard.sources import ChosenSource, Source, StatusSource, read

_KEY = "changed_server"


def changed_server(
    settings: Settings, source: Source, server_status: StatusSource
) -> tuple[Settings, Source, StatusSource]:
    """The server that is changed, with its figures and status; with several the visitor is asked which."""
    if settings.others:
        names = [instance_name(url) for url in settings.urls]
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="headway-changed-server"):
            name = st.selectbox("Server to change", names, key=_KEY, on_change=_forget_answers, width=260)
            st.caption(f"This page shows and changes {plain(name)} alone, one of {len(names)} servers.")
        return watched_at(settings, name)
    name, known = instance_name(settings.url), read(source, (), 0.0).instances
    if not isinstance(source, ChosenSource) and len(known) > 1:
        st.caption(f"This page shows and changes {plain(name)} alone, one of {len(known)} servers of Prometheus.")
        own = source_for(settings.urls, None, settings.refresh_s, settings.token_id, settings.token)
        return settings, ChosenSource(source, name) if name in known else own, server_status
    if isinstance(source, ChosenSource) and source.name != instance_name(settings.url):
        st.warning(f"{plain(source.name)} is known from Prometheus only: this page changes {plain(settings.url)}.")
    return settings, source, server_status


def _forget_answers() -> None:
    """Another server was chosen: the answers on the page are not its own."""
    for name in [name for name in st.session_state if str(name) == "result" or str(name).endswith("_result")]:
        del st.session_state[name]
