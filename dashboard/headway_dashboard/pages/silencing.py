"""The silences of alerts: a form below the list of the alerts, and a button that ends each silence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from headway.api import AdminClient
from headway_dashboard.analysis.diagnosis.alerts import Alert
from headway_dashboard.pages.control.command_form import carry_out, reason_and_name
from headway_dashboard.pages.control.results import say
from headway_dashboard.rights import Rights, logged_in
from headway_dashboard.settings import Settings

_FORM = "silence"
_TIMES_S = {"15 min": 900.0, "1 h": 3600.0, "8 h": 28_800.0, "24 h": 86_400.0}


def silencing_of(settings: Settings) -> Callable[[Sequence[Alert]], None] | None:
    """The form for this visitor; None where this dashboard cannot change its server, or watches several."""
    if settings.role != "operator" or settings.others or not logged_in(Rights(True)).may_apply:
        return None
    return partial(_silencing, settings)


def _silencing(settings: Settings, active: Sequence[Alert]) -> None:
    for alert in active:
        if alert.silence is not None:
            st.button(f"End the silence of {alert.name}", key=f"unsilence_{alert.name}", type="tertiary",
                      on_click=_send, args=(settings, alert.name, None))  # fmt: skip
    names = [alert.name for alert in active if alert.silence is None]
    if names:
        with st.form(_FORM, border=False, enter_to_submit=False):
            with st.container(horizontal=True, vertical_alignment="bottom"):
                st.selectbox("Silence", names, key=f"{_FORM}_alert")
                st.selectbox("For", list(_TIMES_S), key=f"{_FORM}_time", width=110)
            reason_and_name(_FORM, Rights(True))
            st.form_submit_button(
                "Silence", on_click=_silence, args=(settings,),
                help="The alert is listed apart for everybody who watches this server. Alertmanager has silences of "
                "its own.",
            )  # fmt: skip
    say(f"{_FORM}_result")


def _silence(settings: Settings) -> None:
    state = st.session_state
    if name := state.get(f"{_FORM}_alert"):
        _send(settings, str(name), _TIMES_S[str(state[f"{_FORM}_time"])])


def _send(settings: Settings, name: str, for_s: float | None) -> None:
    def ask(client: AdminClient, reason: str, actor: str) -> str:
        client.silence(name, for_s, reason=reason, actor=actor)
        return f"{name} is silent." if for_s else f"The silence of {name} has ended."

    carry_out(settings, _FORM, ask)
