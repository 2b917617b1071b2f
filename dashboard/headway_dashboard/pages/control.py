"""The page Control: the presets, the changes another one would make, orders, and the audit log."""

from __future__ import annotations

import shlex

import streamlit as st

from headway.api import (
    AdminClient,
    AdminError,
    PresetEntry,
    PresetList,
    RoleError,
    Setting,
    StaleError,
    Switched,
)
from headway_dashboard.analysis import newest_values, panels
from headway_dashboard.analysis.units import MISSING, compact, duration
from headway_dashboard.components.banner import plain
from headway_dashboard.pages import orders
from headway_dashboard.pages.head import RECENT_S, head
from headway_dashboard.rights import Rights, ask
from headway_dashboard.server_client import admin_client
from headway_dashboard.settings import Settings
from headway_dashboard.shipped import shipped
from headway_dashboard.sources import Source, StatusSource
from headway_policies.preset import differences, effective, toml_text

_CARD_PX = 240
_REASON_CHARS = 400
_ACTOR_CHARS = 80


def show(settings: Settings, source: Source, server_status: StatusSource) -> None:
    """Draw the page."""
    st.fragment(_running_now, run_every=settings.refresh_s)(source, server_status)
    client = admin_client(settings.url, settings.token)
    presets, rights = ask(settings, client)
    if st.session_state.get("viewer_only"):
        rights = Rights(False, st.session_state["viewer_only"])
    _say_result()
    if not rights.may_apply:
        st.info(rights.sentence)
    listed = presets or shipped(newest_values.running_preset(source.read((panels.PRESET,), RECENT_S)))
    chosen = _cards(listed)
    _proposal(settings, listed, chosen, rights)
    orders.show(settings, server_status, rights)
    if presets is not None:
        _audit(client)
    client.close()


def _running_now(source: Source, server_status: StatusSource) -> None:
    reading, status = source.read((*panels.FACTS, *panels.HEAD), RECENT_S), server_status.read()
    head(reading, status)
    if status.trial is not None:
        st.info(
            f"**{plain(status.preset)}** is on trial: **{plain(status.trial.back_to)}** returns within "
            f"{duration(status.trial.left_s)}, unless somebody keeps it (`headway preset keep`)."
        )
    _, revision = newest_values.running_preset(reading)
    figures = [
        ("limit", newest_values.now(reading, panels.LIMIT)),
        ("ceiling", newest_values.now(reading, panels.CEILING)),
        ("seats taken", newest_values.now(reading, panels.SEATS)),
        ("waiting", newest_values.now(reading, panels.QUEUED)),
    ]
    st.markdown(" · ".join(f"{words} **{MISSING if value is None else compact(value)}**" for words, value in figures))
    shown = st.session_state.get("shown_revision")
    if revision and shown and int(revision) > shown:
        st.warning("The preset was changed elsewhere after this page was drawn.")
        if st.button("Show the new state"):
            st.rerun()


def _cards(presets: PresetList) -> PresetEntry | None:
    """One card a preset; returns the one the visitor looks at."""
    names = [one.name for one in presets.presets]
    if st.session_state.get("chosen") not in names:
        st.session_state["chosen"] = None
    st.markdown("#### Presets")
    with st.grid(min(len(names), 4) or 1, min_column_width=_CARD_PX, gap="small", key="headway-presets"):
        for one in presets.presets:
            _card(one, running=one.name == presets.current.name)
    return next((one for one in presets.presets if one.name == st.session_state["chosen"]), None)


def _card(one: PresetEntry, *, running: bool) -> None:
    with st.container(border=True, height="stretch", gap="xsmall", key=f"card-{one.name}"):
        with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
            st.markdown(f"**{plain(one.name)}**", width="content")
            if running:
                st.badge("in force", color="green")
            if one.source not in ("bundled", ""):
                st.badge("own file", color="gray", help=plain(one.source))
        st.caption(plain(one.description))
        seats, strategy = one.settings.get("batching.seats"), one.settings.get("batching.strategy")
        window_ms = effective(one.settings).get("batching.window_ms")
        window = "" if window_ms is None else f" · {_value(window_ms)} ms window"
        held = f"{_value(seats)} {'seat' if seats == 1 else 'seats'}"
        st.markdown(f"{held} · {plain(str(strategy or MISSING))} batching{window}")
        chosen = st.session_state["chosen"] == one.name
        st.button(
            "Comparing" if chosen else "Compare",
            key=f"compare-{one.name}",
            on_click=_choose,
            args=(one.name,),
            disabled=running or chosen,
            width="stretch",
        )


def _choose(name: str) -> None:
    st.session_state["chosen"] = name
    st.session_state.pop("result", None)


def _proposal(settings: Settings, presets: PresetList, chosen: PresetEntry | None, rights: Rights) -> None:
    st.session_state["shown_revision"] = presets.current.revision
    if chosen is None or chosen.name == presets.current.name:
        st.caption("Choose Compare on a preset to see what it would change before it is applied.")
        return
    running = next((one for one in presets.presets if one.name == presets.current.name), None)
    changes = differences(effective(running.settings) if running else {}, effective(chosen.settings))
    with st.container(border=True, key="headway-proposal"):
        st.markdown(f"#### {plain(presets.current.name or 'now')} → {plain(chosen.name)}")
        if changes:
            rows = [
                {"Setting": plain(one.setting), "Now": _value(one.before), "After": _value(one.after)}
                for one in changes
            ]
            st.table(rows, border="horizontal", hide_index=True)
        else:
            st.caption("Both presets have the same settings.")
        for warning in chosen.warnings:
            st.warning(plain(warning))
        st.caption("No queued request is dropped and no running one is stopped; fewer seats empty as requests finish.")
        _apply_form(settings, chosen, rights)
        st.caption("The same from a shell:")
        st.code(_command(settings, chosen.name), language="bash")


def _apply_form(settings: Settings, chosen: PresetEntry, rights: Rights) -> None:
    with st.form("apply", border=False, enter_to_submit=False):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            st.text_input(
                "Reason",
                key="reason",
                max_chars=_REASON_CHARS,
                placeholder="written into the audit log",
                disabled=not rights.may_apply,
                width="stretch",
            )
            st.text_input("Your name", key="actor", max_chars=_ACTOR_CHARS, disabled=not rights.may_apply, width=180)
        st.form_submit_button(
            f"Apply {chosen.name}",
            type="primary",
            on_click=_apply,
            args=(settings, chosen.name),
            disabled=not rights.may_apply,
        )


def _command(settings: Settings, name: str) -> str:
    reason = str(st.session_state.get("reason") or "")
    words = ["headway", "preset", "use", name, "--url", settings.url]
    return shlex.join([*words, "--reason", reason] if reason else words)


def _apply(settings: Settings, name: str) -> None:
    """Switch to a preset, on the revision that was on the page when the button was pressed."""
    state = st.session_state
    client = admin_client(settings.url, settings.token)
    try:
        done = client.switch(
            name, revision=state["shown_revision"], reason=state.get("reason", ""), actor=state.get("actor", "")
        )
    except StaleError:
        state["result"] = (
            "warning",
            "The preset was changed meanwhile. Nothing was applied; this is the new state.",
        )
    except RoleError as error:
        state["viewer_only"] = f"This token may only read ({error}). An operator's token is needed to apply."
    except AdminError as error:
        state["result"] = ("error", f"Nothing was applied. {error}")
    else:
        state["result"] = ("success", _switched_words(done, before=state["shown_revision"]))
        state["chosen"] = None
        state["reason"] = ""
    finally:
        client.close()


def _switched_words(done: Switched, *, before: int) -> str:
    """What a switch did; the server leaves a preset that is in force already under its revision."""
    if done.revision == before:
        return f"{done.name} was in force already, as revision {done.revision}. Nothing was changed."
    listed = ", ".join(f"{one.setting} {_value(one.before)} → {_value(one.after)}" for one in done.changes)
    confirmed = "" if done.engine_limit_confirmed else " The engine has not confirmed its new limit."
    warned = "".join(f" Warning: {one}." for one in done.warnings)
    return f"{done.name} is in force as revision {done.revision}. Changed: {listed or 'nothing'}.{confirmed}{warned}"


def _say_result() -> None:
    kind, text = st.session_state.get("result", ("", ""))
    if kind:
        {"success": st.success, "warning": st.warning, "error": st.error}[kind](plain(text))


def _audit(client: AdminClient) -> None:
    st.markdown("#### Audit log")
    try:
        entries = client.audit(50)
    except AdminError as error:
        st.caption(plain(str(error)))
        return
    if not entries:
        st.caption("Nothing has been changed since the server started.")
        return
    rows = [
        {
            "When (UTC)": one.time.replace("T", " ").removesuffix("Z"),
            "Actor": one.actor or one.role,
            "Address": one.address,
            "Action": one.action.replace("_", " "),
            "Before": one.before,
            "After": one.after,
            "Revision": str(one.revision),
            "Reason": one.reason,
            "Result": one.result,
        }
        for one in entries
    ]
    st.dataframe(rows, hide_index=True, width="stretch", height="auto")


def _value(value: Setting | None) -> str:
    """A setting as it would stand in the preset file: exact, so that two different values never look the same."""
    return MISSING if value is None else plain(toml_text(value))
