"""The orders of an operator beside a preset: a rung of the fallback ladder, and another engine.

Each wants a word typed, so that nothing is ordered by a slip of the hand; the server checks the token and has the last
word. Its answer is shown, whatever it is.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable

import streamlit as st

from headway.api import AdminClient, AdminError, RoleError
from headway_dashboard.analysis import descriptions
from headway_dashboard.components.banner import plain
from headway_dashboard.rights import Rights
from headway_dashboard.server_client import admin_client
from headway_dashboard.settings import Settings
from headway_dashboard.sources import StatusSource

AUTO = "auto"
RECYCLE = "recycle"
_COLUMN_PX = 420
_REASON_CHARS = 400
_ACTOR_CHARS = 80


def show(settings: Settings, server_status: StatusSource, rights: Rights) -> None:
    """Draw both orders beside each other."""
    st.markdown("#### Operator actions")
    with st.grid(2, min_column_width=_COLUMN_PX, gap="small", key="headway-orders"):
        with st.container(border=True, height="stretch", gap="small", key="headway-order-ladder"):
            _ladder(settings, server_status, rights)
        with st.container(border=True, height="stretch", gap="small", key="headway-order-recycle"):
            _recycle(settings, rights)


def _ladder(settings: Settings, server_status: StatusSource, rights: Rights) -> None:
    ladder = server_status.read().ladder
    st.markdown("**Fallback ladder**", help="A rung degrades only requests of classes whose preset allows it.")
    st.fragment(_stands, run_every=settings.refresh_s)(server_status)
    words = (*descriptions.orderable(ladder), AUTO)
    chosen = st.pills(
        "Set it to",
        words,
        key="rung",
        format_func=lambda word: "automatic" if word == AUTO else word,
        disabled=not rights.may_apply,
    )
    if chosen is None:
        st.caption(
            "Choose a rung to see its effect. It stays set until the next change here, also across preset switches."
        )
        _say("order_result")
        return
    if chosen == AUTO:
        st.caption("The ladder follows the preset's thresholds again.")
    else:
        st.caption(f"From then on, until it is set to automatic: {descriptions.order_words(ladder, chosen)}.")
    _form("order", chosen, f"Set to {'automatic' if chosen == AUTO else chosen}", settings, rights)
    command = ["headway", "fallback", *([AUTO] if chosen == AUTO else ["set", chosen]), "--url", settings.url]
    st.code(shlex.join(command), language="bash")
    _say("order_result")


def _stands(server_status: StatusSource) -> None:
    """The ladder's state now, as the server reports it."""
    words = descriptions.ladder_words(server_status.read().ladder)
    st.markdown(words or "Its state is shown when the dashboard has a token of the server.")


def _recycle(settings: Settings, rights: Rights) -> None:
    st.markdown("**Recycle the engine**", help="The running engine is replaced by another one.")
    st.markdown(
        "Where memory allows two engines, the new one is started first, while the old one serves. Then running "
        "requests finish, within the preset's time; new ones wait until the engine is replaced, without room for two "
        "as long as loading the model takes. Time-outs keep running meanwhile."
    )
    _form("recycle", RECYCLE, "Recycle the engine", settings, rights)
    st.code(shlex.join(["headway", "recycle", "--url", settings.url]), language="bash")
    _say("recycle_result")


def _form(key: str, word: str, label: str, settings: Settings, rights: Rights) -> None:
    """Reason, name, and the word that confirms."""
    off = not rights.may_apply
    with st.form(key, border=False, enter_to_submit=False):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            st.text_input("Reason", key=f"{key}_reason", max_chars=_REASON_CHARS, disabled=off,
                          placeholder="written into the audit log")  # fmt: skip
            st.text_input("Your name", key=f"{key}_actor", max_chars=_ACTOR_CHARS, disabled=off, width=180)
        st.text_input(f'Type "{word}" to confirm', key=f"{key}_confirm", max_chars=40, disabled=off, width=240)
        st.form_submit_button(
            label,
            type="primary",
            key=f"{key}_go",
            on_click=_order if key == "order" else _ask_recycle,
            args=(settings, word),
            disabled=off,
        )


def _order(settings: Settings, word: str) -> None:
    def ask(client: AdminClient, reason: str, actor: str) -> str:
        ladder = client.order_fallback(None if word == AUTO else word, reason=reason, actor=actor)
        if ladder.ordered:
            return f"The ladder is at {ladder.rung}, as set here."
        return f"The ladder is automatic again; it is at {ladder.rung} now."

    _carry_out(settings, "order", word, ask)


def _ask_recycle(settings: Settings, word: str) -> None:
    def ask(client: AdminClient, reason: str, actor: str) -> str:
        taken = client.recycle(reason=reason, actor=actor).seats_taken
        still = f"{taken} seats are still taken. " if taken else ""
        return f"Accepted. {still}Its progress is shown at the top of this page, its end in the audit log."

    _carry_out(settings, "recycle", word, ask)


def _carry_out(settings: Settings, key: str, word: str, ask: Callable[[AdminClient, str, str], str]) -> None:
    """Ask the server if the word was typed, and keep its answer for the page."""
    state = st.session_state
    result = f"{key}_result"
    if str(state.get(f"{key}_confirm", "")).strip().lower() != word:
        state[result] = ("warning", f'Nothing was changed: type "{word}" to confirm.')
        return
    client = admin_client(settings.url, settings.token)
    try:
        said = ask(client, str(state.get(f"{key}_reason", "")), str(state.get(f"{key}_actor", "")))
    except RoleError as error:
        state["viewer_only"] = f"This token may only read ({error}). An operator's token is needed."
    except AdminError as error:
        state[result] = ("error", f"Nothing was changed. {error}")
    else:
        state[result] = ("success", said)
        state[f"{key}_confirm"] = state[f"{key}_reason"] = ""
    finally:
        client.close()


def _say(key: str) -> None:
    kind, text = st.session_state.get(key, ("", ""))
    if kind:
        {"success": st.success, "warning": st.warning, "error": st.error}[kind](plain(text))
