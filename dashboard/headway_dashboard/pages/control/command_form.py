"""The form of a command: reason, name, and a word that confirms, so that nothing happens by a slip of the hand."""

from __future__ import annotations

import time
from collections.abc import Callable

import streamlit as st

from headway.api import AdminClient, AdminError
from headway_dashboard.pages.control.results import failed
from headway_dashboard.rights import Rights, must_log_in, visitor_name
from headway_dashboard.server_client import admin_client
from headway_dashboard.settings import Settings

REASON_CHARS = 400
ACTOR_CHARS = 80
_REPEATED_S = 30.0  # a server that was started anew meanwhile has the same revision

#: Sends a command with its reason and its author, and says what came of it. Raises AdminError.
Ask = Callable[[AdminClient, str, str], str]


def command_form(key: str, word: str, label: str, settings: Settings, rights: Rights, ask: Ask) -> None:
    """Reason, name, the word that confirms, and the button: after each command another one, so that a press which is
    reported again, such as that of a double click, is none of it.
    """
    off, turn = not rights.may_apply, st.session_state.get(f"{key}_turn", 0)
    with st.form(key, border=False, enter_to_submit=False):
        reason_and_name(key, rights)
        st.text_input(f'Type "{word}" to confirm', key=f"{key}_confirm", max_chars=40, disabled=off, width=240)
        st.form_submit_button(
            label, type="primary", key=f"{key}_go_{turn}", on_click=_confirmed, args=(settings, key, word, ask, turn),
            disabled=off,
        )  # fmt: skip


def reason_and_name(key: str, rights: Rights) -> None:
    """The reason and the name for the audit log. Visitors who have logged in are asked for no name."""
    off = not rights.may_apply
    reason, actor = (f"{key}_reason", f"{key}_actor") if key else ("reason", "actor")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input("Reason", key=reason, max_chars=REASON_CHARS, disabled=off, width="stretch",
                      placeholder="written into the audit log")  # fmt: skip
        if not visitor_name():
            st.text_input("Your name", key=actor, max_chars=ACTOR_CHARS, disabled=off, width=180)


def said(key: str) -> tuple[str, str]:
    """The reason and the name of a form."""
    state = st.session_state
    reason, actor = (f"{key}_reason", f"{key}_actor") if key else ("reason", "actor")
    return str(state.get(reason) or ""), (visitor_name() or str(state.get(actor) or ""))[:ACTOR_CHARS]


def carry_out(
    settings: Settings, key: str, ask: Ask, *, done: str = "changed", result: str = "", once: object = None
) -> bool:
    """Ask the server, keep its answer for the page, and say whether it did what was asked.

    ``once`` names a command that makes sense a single time at a server, such as a switch from a certain revision: a
    double click reports its press twice, and then the first answer stands. The second report ends this call at the next
    use of the session's state, so that all of it is used before the server is asked, and the answer is filled in.
    """
    state, kept = st.session_state, result or f"{key}_result"
    sent, sent_s = state.get(f"{kept}_once", (None, 0.0))
    if once is not None and sent == (settings.url, once) and time.monotonic() < sent_s + _REPEATED_S:
        return True
    if must_log_in():
        state[kept] = ("warning", f"Nothing was {done}: log in first.")
        return False
    (reason, actor), client = said(key), admin_client(settings.url, settings.token)
    answer: list[str] = ["", ""]
    sent_now: list[object] = [(settings.url, once), time.monotonic()]
    state[kept] = answer
    state[f"{kept}_once"] = sent_now
    try:
        answer[:] = "success", ask(client, reason, actor)
    except AdminError as error:
        sent_now[0] = None
        failed(kept, error, done=done)
        return False
    finally:
        client.close()
    return True


def _confirmed(settings: Settings, key: str, word: str, ask: Ask, turn: int) -> None:
    state = st.session_state
    if str(state.get(f"{key}_confirm", "")).strip().lower() != word:
        state[f"{key}_result"] = ("warning", f'Nothing was changed: type "{word}" to confirm.')
    elif carry_out(settings, key, ask, once=turn):
        state[f"{key}_confirm"] = state[f"{key}_reason"] = ""
        state[f"{key}_turn"] = turn + 1
