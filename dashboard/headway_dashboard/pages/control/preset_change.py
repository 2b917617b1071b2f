"""The changes by another preset, and the form that puts it in force, for good or on trial."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from headway.api import AdminClient, PresetEntry, Setting, Switched
from headway_dashboard.analysis.changes import commands
from headway_dashboard.analysis.changes.preset_changes import by_urgency, change_rows, seat_change, setting_text
from headway_dashboard.analysis.changes.trial_terms import Terms, read_terms, with_refusals
from headway_dashboard.components import table
from headway_dashboard.components.banner import plain
from headway_dashboard.pages.control.command_form import carry_out, reason_and_name
from headway_dashboard.pages.control.preset_cards import CHOSEN, RESULT
from headway_dashboard.rights import Rights
from headway_dashboard.settings import Settings

AFTER, CONDITIONS = "revert_after", "revert_if"
_EXAMPLE = "realtime.ttft_p95_s > 2 for 30 s"


def proposal(
    settings: Settings, running: str, before: Mapping[str, Setting], chosen: PresetEntry, rights: Rights,
    *, revision: int, ceiling: int | None, refused_ratio: float,
) -> None:  # fmt: skip
    """Draw the differences, the warnings, and the form. ``refused_ratio`` is the share that is refused now."""
    with st.container(border=True, key="headway-proposal"):
        st.markdown(f"#### {plain(running or 'now')} → {plain(chosen.name)}")
        if words := seat_change(before, chosen.settings, ceiling):
            st.markdown(plain(words))
        table(change_rows(before, chosen.settings, ceiling), "Both presets have the same settings.")
        for warning in chosen.warnings:
            st.warning(plain(warning))
        st.caption("No queued request is dropped and no running one is stopped; fewer seats empty as requests finish.")
        _form(settings, chosen, rights, revision, refused_ratio)
        st.caption("The same from a shell:")
        st.code(_command(settings, chosen, refused_ratio), language="bash")


def _form(settings: Settings, chosen: PresetEntry, rights: Rights, revision: int, refused_ratio: float) -> None:
    off = not rights.may_apply
    with st.form("apply", border=False, enter_to_submit=False):
        reason_and_name("", rights)
        with st.container(horizontal=True, vertical_alignment="top"):
            st.text_input("Revert after", key=AFTER, max_chars=20, disabled=off, width=180, placeholder="10m",
                          help="The earlier preset returns after this time (90s, 10m, 1h), unless somebody keeps "
                               "the new one. Empty: the new one stays.")  # fmt: skip
            st.text_area("Revert if", key=CONDITIONS, max_chars=2200, disabled=off, width="stretch", height=68,
                         placeholder=_EXAMPLE,
                         help="One condition a line: [CLASS.]FIGURE > NUMBER [for SECONDS s]. The earlier preset "
                              "returns as soon as a condition has been true for its time. A trial without a condition "
                              "on refusals gets: more than 10 % above the present refusals.")  # fmt: skip
        st.form_submit_button(
            f"Apply {chosen.name}", type="primary", on_click=_apply, args=(settings, chosen, revision, refused_ratio),
            disabled=off,
        )  # fmt: skip


def _terms(chosen: PresetEntry, refused_ratio: float) -> Terms:
    after, conditions = (str(st.session_state.get(key) or "") for key in (AFTER, CONDITIONS))
    return with_refusals(read_terms(after, conditions, by_urgency(chosen.settings)), refused_ratio)


def _command(settings: Settings, chosen: PresetEntry, refused_ratio: float) -> str:
    terms, reason = _terms(chosen, refused_ratio), str(st.session_state.get("reason") or "")
    return commands.use_command(
        settings.url, chosen.name, reason=reason, revert_after_s=terms.revert_after_s, revert_if=terms.revert_if
    )


def _apply(settings: Settings, chosen: PresetEntry, revision: int, refused_ratio: float) -> None:
    """Switch to a preset, on the revision that was on the page when the button was pressed."""
    state, terms = st.session_state, _terms(chosen, refused_ratio)
    if terms.problems:
        state[RESULT] = ("error", f"Nothing was applied. {' '.join(terms.problems)} Correct it, and press again.")
        return

    def ask(client: AdminClient, reason: str, actor: str) -> str:
        done = client.switch(
            chosen.name,
            revision=revision,
            revert_after_s=terms.revert_after_s,
            revert_if=terms.revert_if,
            reason=reason,
            actor=actor,
        )
        return switched_words(done, before=revision)

    if carry_out(settings, "", ask, done="applied", result=RESULT, once=(chosen.name, revision, terms)):
        state[CHOSEN] = None
        state["reason"] = state[AFTER] = state[CONDITIONS] = ""


def switched_words(done: Switched, *, before: int, watch: str = "at the top of this page") -> str:
    """The effect of a switch; the server leaves a preset that is in force already under its revision. ``watch`` is the
    place of the watch of a trial.
    """
    if done.revision == before:
        return f"{done.name} was in force already, as revision {done.revision}. Nothing was changed."
    listed = ", ".join(
        f"{change.setting} {setting_text(change.before)} → {setting_text(change.after)}" for change in done.changes
    )
    confirmed = "" if done.engine_limit_confirmed else " The engine has not confirmed its new limit."
    warned = "".join(f" Warning: {warning}." for warning in done.warnings)
    trial = "" if done.trial is None else f" The preset is on trial: the watch is {watch}."
    how = f"{done.name} is in force as revision {done.revision}."
    return f"{how} Changed: {listed or 'nothing'}.{confirmed}{warned}{trial}"
