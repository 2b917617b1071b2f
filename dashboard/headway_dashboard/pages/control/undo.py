"""Earlier revisions of the preset, any of which can be put in force again."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from headway.api import AdminClient
from headway.api.schema import AuditEntry
from headway_dashboard.analysis.changes.audit_rows import revisions
from headway_dashboard.analysis.changes.commands import command
from headway_dashboard.pages.control.command_form import carry_out, reason_and_name
from headway_dashboard.pages.control.preset_change import switched_words
from headway_dashboard.pages.control.results import say
from headway_dashboard.rights import Rights
from headway_dashboard.settings import Settings

_FIRST = 1


def undo(settings: Settings, entries: Sequence[AuditEntry], rights: Rights, *, current: int) -> None:
    """Draw the list of earlier revisions, and the form that goes back to one."""
    found = revisions(entries, current)
    if current > _FIRST:  # the server began with it, so that no change in the log leads to it
        found.setdefault(_FIRST, _first_name(entries))
    if not found:
        say("undo_result")
        return
    with st.expander("Undo: go back to an earlier revision"):
        st.caption("Its settings become a new revision, so that an undo can be undone. The server keeps the last ones.")
        chosen = st.selectbox(
            "Revision", list(found), key="undo_revision", format_func=lambda number: f"{number}: {found[number]}",
            disabled=not rights.may_apply,
        )  # fmt: skip
        with st.form("undo", border=False, enter_to_submit=False):
            reason_and_name("undo", rights)
            st.form_submit_button(
                f"Undo to revision {chosen}", key="undo_go", on_click=_undo, args=(settings, chosen, current),
                disabled=not rights.may_apply,
            )  # fmt: skip
        st.code(command(settings.url, "preset", "undo", str(chosen)), language="bash")
    say("undo_result")


def _first_name(entries: Sequence[AuditEntry]) -> str:
    """The preset in force before the oldest change in the log, where that is the first change of all."""
    oldest = min((entry for entry in entries if entry.action == "switch_preset" and entry.result == "applied"),
                 key=lambda entry: entry.revision, default=None)  # fmt: skip
    return oldest.before if oldest is not None and oldest.revision == _FIRST + 1 else "at the start"


def _undo(settings: Settings, to: int, current: int) -> None:
    def ask(client: AdminClient, reason: str, actor: str) -> str:
        return switched_words(client.undo(to, revision=current, reason=reason, actor=actor), before=current)

    if carry_out(settings, "undo", ask, once=(to, current)):
        st.session_state["undo_reason"] = ""
