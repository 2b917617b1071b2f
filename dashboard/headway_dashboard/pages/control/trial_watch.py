"""The watch of a trial: its conditions, the figures before and now, and the buttons that keep it or undo it."""

from __future__ import annotations

import streamlit as st

from headway.api import AdminClient, AdminError, Trial
from headway_dashboard.analysis.changes.commands import command
from headway_dashboard.analysis.changes.trial_words import condition_rows, figure_rows, head_words, running, worse_words
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.components import table
from headway_dashboard.components.banner import plain
from headway_dashboard.pages.control.command_form import carry_out, reason_and_name
from headway_dashboard.pages.control.preset_cards import RESULT as APPLIED
from headway_dashboard.pages.control.preset_change import switched_words
from headway_dashboard.pages.control.results import TRIED, say
from headway_dashboard.rights import Rights
from headway_dashboard.server_client import admin_client
from headway_dashboard.settings import Settings
from headway_dashboard.sources import StatusSource

_TRIAL = "trial"
_WATCHED = "trial_watched"
_OVER = "trial_over"
_RESULT = "trial_result"
_FORM = "trial"


def trial_watch(settings: Settings, server_status: StatusSource, rights: Rights) -> None:
    """Draw the trial that goes on, or the end of the last one."""
    st.session_state.pop(_TRIAL, None)
    st.fragment(_watch, run_every=settings.refresh_s)(settings, server_status, rights)


def _watch(settings: Settings, server_status: StatusSource, rights: Rights) -> None:
    state, status = st.session_state, server_status.read()
    before: Trial | None = state.get(_TRIAL)
    trial = _newest(settings, status)
    if running(before) and not running(trial):
        st.rerun()  # another preset may be in force: the cards are of the one before
    if trial is not None and trial.end is None:
        state[_WATCHED] = trial.revision
        _running(settings, trial, rights)
    elif trial is not None:
        if state.get(_WATCHED) == trial.revision != state.get(_OVER):
            state[_OVER] = trial.revision
            _forget_apply()
        _ended(trial)
    say(_RESULT)


def _newest(settings: Settings, status: Status) -> Trial | None:
    """The trial as the server tells it now; asked for again only while there is one."""
    state = st.session_state
    known: Trial | None = state.get(_TRIAL)
    if settings.token is None or (_TRIAL in state and not running(known) and status.trial is None):
        return known
    client = admin_client(settings.url, settings.token)
    try:
        state[_TRIAL] = client.trial()
    except AdminError:
        state.setdefault(_TRIAL, None)  # an older server, or one that does not answer now
    finally:
        client.close()
    found: Trial | None = state[_TRIAL]
    return found


def _running(settings: Settings, trial: Trial, rights: Rights) -> None:
    with st.container(border=True, gap="small", key="headway-trial"):
        st.info(plain(head_words(trial)))
        worse = worse_words(trial)
        if worse:
            st.warning(plain(worse))
        table(condition_rows(trial))
        st.caption(
            "The minute before → now. Completed, refused and errors: of all requests since the switch; times and "
            "tokens: of the last seconds."
        )
        table(figure_rows(trial))
        reason_and_name(_FORM, rights)
        with st.container(horizontal=True, gap="small"):
            off = not rights.may_apply
            for label, key, act in (("Keep", "trial_keep", _keep), ("Undo", "trial_undo", _undo)):
                main = (act is _undo) == bool(worse)
                st.button(label, key=key, type="primary" if main else "secondary", on_click=act,
                          args=(settings, trial), disabled=off)  # fmt: skip
        keep, undo = (command(settings.url, "preset", word) for word in ("keep", "undo"))
        st.code(f"{keep}\n{undo}", language="bash")


def _ended(trial: Trial) -> None:
    words = plain(f"Last trial: {head_words(trial)}")
    if st.session_state.get(_WATCHED) != trial.revision:
        st.caption(words)
    elif trial.end == "kept":
        st.success(words)
    else:
        st.warning(words)


def _keep(settings: Settings, trial: Trial) -> None:
    def ask(client: AdminClient, reason: str, actor: str) -> str:
        kept = client.keep(revision=trial.revision, reason=reason, actor=actor)
        return f"{kept.name} stays, as revision {kept.revision}."

    if carry_out(settings, "trial", ask, once=("keep", trial.revision)):
        _forget_apply()


def _undo(settings: Settings, trial: Trial) -> None:
    def ask(client: AdminClient, reason: str, actor: str) -> str:
        done = client.undo(revision=trial.revision, reason=reason, actor=actor)
        return switched_words(done, before=trial.revision)

    if carry_out(settings, "trial", ask, once=("undo", trial.revision)):
        _forget_apply()


def _forget_apply() -> None:
    """Forget what the switch that began the trial said: it holds no longer."""
    for key in (APPLIED, TRIED):
        st.session_state.pop(key, None)
