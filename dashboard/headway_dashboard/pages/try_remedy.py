"""The button of the severity band: the preset of the best remedy on trial, for five minutes."""

from __future__ import annotations

import re

import streamlit as st

from headway.api import AdminClient
from headway_dashboard.analysis.changes.trial_terms import Terms, with_refusals
from headway_dashboard.analysis.diagnosis.facts import refused_share
from headway_dashboard.analysis.server.newest_values import running_preset
from headway_dashboard.pages.control.command_form import carry_out
from headway_dashboard.pages.control.preset_change import switched_words
from headway_dashboard.pages.control.results import TRIED, say
from headway_dashboard.pages.page_reading import PageReading
from headway_dashboard.settings import Settings
from headway_dashboard.shared import watched
from headway_policies.diagnosis import Remedy

TRY_S = 300.0
_FORM = "try"
_SEEN = "try_seen"
_USE = re.compile(r"headway preset use (\S+)(?: .*)?")


def try_button(remedy: Remedy, reading: PageReading) -> None:
    """Draw the button where the remedy is a preset, and this dashboard may change its only server."""
    found, settings = _USE.fullmatch(remedy.command), watched()[0]
    revision = running_preset(reading.newest)[1]
    alone = not settings.others and len(reading.newest.instances) < 2  # Prometheus may know more servers than settings
    if found is not None and settings.role == "operator" and alone and revision:
        terms = with_refusals(Terms(TRY_S), refused_share(reading.newest) or 0.0)
        arguments = (settings, found[1], int(revision), terms)
        st.button(f"Try {found[1]} for 5 min", type="primary", key="try_remedy", on_click=_try, args=arguments)
    state = st.session_state
    state[_SEEN] = state.get(_SEEN, False) or reading.status.trial is not None
    if state[_SEEN] and reading.status.trial is None:  # it is over: its answer holds no longer
        state.pop(TRIED, None)
    say(TRIED)


def _try(settings: Settings, name: str, revision: int, terms: Terms) -> None:
    def ask(client: AdminClient, reason: str, actor: str) -> str:
        done = client.switch(
            name,
            revision=revision,
            revert_after_s=terms.revert_after_s,
            revert_if=terms.revert_if,
            reason="tried as the best remedy of the diagnosis",
            actor=actor,
        )
        return switched_words(done, before=revision, watch="on the page Control")

    st.session_state[_SEEN] = False
    carry_out(settings, _FORM, ask, done="applied", once=(name, revision))
