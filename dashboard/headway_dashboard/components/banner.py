"""The banner: condition, running preset, and source of the figures."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from headway_dashboard.analysis.condition import Condition, State

Colour = Literal["green", "gray", "orange", "red", "blue"]

_LOOKS: dict[State, tuple[str, Colour]] = {
    State.LIVE: ("Live", "green"),
    State.NO_TRAFFIC: ("No traffic", "gray"),
    State.NOT_READY: ("Not ready", "orange"),
    State.STALE: ("Stale", "orange"),
    State.DOWN: ("Down", "red"),
    State.CONNECTING: ("Connecting", "blue"),
}
_LOUD = {State.DOWN: st.error, State.STALE: st.warning}


def banner(
    condition: Condition, *, preset: str, source: str, note: str = "", rung: str = "", has_notice: bool = False
) -> None:
    """Draw the state, the running preset and the source, as one row of badges with a sentence.

    ``rung`` is the rung of the fallback ladder, if not normal. ``has_notice``: a notice below has the details.
    """
    words, colour = _LOOKS[condition.state]
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="headway-banner"):
        st.badge(words, color=colour)
        if preset:
            st.badge(preset, color="primary")
        if rung:
            st.badge(f"fallback: {rung}", color="orange")
        st.badge(source, color="gray")
        if condition.state not in _LOUD and not has_notice:
            st.caption(plain(condition.sentence), width="content")
    if condition.state in _LOUD:
        _LOUD[condition.state](plain(condition.sentence))
    if note:
        st.info(plain(note))


def plain(text: str) -> str:
    """Untrusted text, shown as it is: nothing in it is taken for Markdown, HTML or a directive."""
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]()<>#+-!|~$:&" else letter for letter in text)
