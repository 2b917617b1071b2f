"""The order of the parts of the page Control, and what runs now above them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from headway.api import AdminClient, AdminError, PresetList, Setting
from headway.api.schema import AuditEntry
from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.diagnosis.facts import refused_share
from headway_dashboard.analysis.server import newest_values
from headway_dashboard.analysis.units import MISSING, compact
from headway_dashboard.components.banner import plain
from headway_dashboard.pages.control import commands
from headway_dashboard.pages.control.audit_log import audit_log
from headway_dashboard.pages.control.forecast_view import ask_on_opening, doubt, forecast_bar, forecast_table
from headway_dashboard.pages.control.preset_cards import RESULT, cards
from headway_dashboard.pages.control.preset_change import proposal
from headway_dashboard.pages.control.results import VIEWER_ONLY, say
from headway_dashboard.pages.control.server_choice import changed_server
from headway_dashboard.pages.control.trial_watch import trial_watch
from headway_dashboard.pages.control.undo import undo
from headway_dashboard.pages.page_reading import RECENT_S, Page
from headway_dashboard.rights import Rights, ask, logged_in
from headway_dashboard.server_client import admin_client
from headway_dashboard.settings import Settings
from headway_dashboard.shipped import shipped
from headway_dashboard.sources import Source, StatusSource, read

_REVISION = "shown_revision"
_AUDIT_ENTRIES = 200


def _show(settings: Settings, source: Source, server_status: StatusSource) -> None:
    """Draw the page."""
    settings, source, server_status = changed_server(settings, source, server_status)
    st.fragment(_running_now, run_every=settings.refresh_s)(source)
    with admin_client(settings.url, settings.token) as client:
        presets, rights = ask(settings, client)
        before = _in_force(client, presets)
        entries, problem = _audit(client) if presets is not None else ([], "")
    rights = _less(rights)
    trial_watch(settings, server_status, rights)
    if not rights.may_apply:
        st.info(rights.sentence)
        if rights.may_log_in:
            st.button("Log in", on_click=st.login)
    seats = read(source, (panels.LIMIT, panels.CEILING, panels.ERROR_SHARE, panels.ERRORS_BY_CAUSE), RECENT_S)
    limit, ceiling = (_whole(newest_values.now(seats, figure)) for figure in (panels.LIMIT, panels.CEILING))
    listed = presets or shipped(newest_values.running_preset(read(source, (panels.PRESET,), RECENT_S)))
    st.session_state[_REVISION] = listed.current.revision
    _presets(settings, server_status, listed, before, rights, ceiling, refused_share(seats) or 0.0)
    undo(settings, entries, rights, current=listed.current.revision)
    commands.show(settings, server_status, rights, revision=listed.current.revision, limit=limit, ceiling=ceiling)
    if problem:
        st.caption(plain(problem))
    elif presets is not None:
        audit_log(entries)


def _presets(
    settings: Settings,
    server_status: StatusSource,
    listed: PresetList,
    before: Mapping[str, Setting] | None,
    rights: Rights,
    ceiling: int | None,
    refused_ratio: float,
) -> None:
    st.markdown("#### Presets")
    job = ask_on_opening(settings, rights)
    doubted = doubt(server_status)
    forecast_bar(settings, job, server_status, rights)
    forecast = job.state().forecast
    forecast_table(forecast, listed, doubted)
    chosen = cards(listed, ceiling, forecast, doubted=bool(doubted))
    say(RESULT)
    if chosen is None or chosen.name == listed.current.name:
        st.caption("Choose Compare on a preset to see what it would change before it is applied.")
        return
    running = next((preset.settings for preset in listed.presets if preset.name == listed.current.name), {})
    revision = listed.current.revision
    proposal(settings, listed.current.name, running if before is None else before, chosen, rights,
             revision=revision, ceiling=ceiling, refused_ratio=refused_ratio)  # fmt: skip


def _in_force(client: AdminClient, presets: PresetList | None) -> Mapping[str, Setting] | None:
    """The settings that are in force, which a command or an undo may have changed; None: as they are listed."""
    if presets is None:
        return None
    try:
        found = client.preset()
    except AdminError:
        return None
    return found.settings if found.revision == presets.current.revision else None


def _audit(client: AdminClient) -> tuple[Sequence[AuditEntry], str]:
    try:
        return client.audit(_AUDIT_ENTRIES), ""
    except AdminError as error:
        return [], str(error)


def _less(rights: Rights) -> Rights:
    """The rights left by the server's answers, and by a missing login where a login is set up."""
    if said := st.session_state.get(VIEWER_ONLY):
        return Rights(False, said)
    return logged_in(rights)


def _running_now(source: Source) -> None:
    reading = read(source, (*panels.FACTS, panels.PRESET), RECENT_S)
    _, revision = newest_values.running_preset(reading)
    figures = [
        ("limit", newest_values.now(reading, panels.LIMIT)),
        ("ceiling", newest_values.now(reading, panels.CEILING)),
        ("seats taken", newest_values.now(reading, panels.SEATS)),
        ("waiting", newest_values.now(reading, panels.QUEUED)),
    ]
    st.markdown(" · ".join(f"{words} **{MISSING if value is None else compact(value)}**" for words, value in figures))
    shown = st.session_state.get(_REVISION)
    if revision and shown and int(revision) > shown:
        st.warning("The preset was changed elsewhere after this page was drawn.")
        if st.button("Show the new state"):
            st.rerun()


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


PAGE = Page("Control", "control", foot=_show)
