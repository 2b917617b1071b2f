"""The banner: severity, condition, the preset in force, the source of the figures, and which server it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import streamlit as st

from headway_dashboard.analysis.server.condition import Condition, State
from headway_dashboard.analysis.server.identity import Identity
from headway_dashboard.analysis.units import duration
from headway_policies.diagnosis import Severity

Colour = Literal["green", "gray", "orange", "red", "blue"]

#: The colour of each severity, the same wherever its word stands.
SEVERITIES: Mapping[Severity, Colour] = {
    Severity.OK: "green",
    Severity.WATCH: "blue",
    Severity.DEGRADED: "orange",
    Severity.OVERLOADED: "red",
    Severity.DOWN: "red",
}
_STATES: dict[State, Colour] = {
    State.LIVE: "green",
    State.NO_TRAFFIC: "gray",
    State.NOT_READY: "orange",
    State.STALE: "orange",
    State.DOWN: "red",
    State.CONNECTING: "blue",
}
_LOUD = {State.DOWN: st.error, State.STALE: st.warning}


def banner(
    condition: Condition,
    identity: Identity,
    *,
    severity: Severity | None,
    source: str,
    note: str = "",
    rung: str = "",
    has_notice: bool = False,
) -> None:
    """Draw one row: badges, a sentence, and the server in words.

    ``severity`` is None where it is not known. ``rung`` is the rung of the fallback ladder, if not normal.
    ``has_notice``: a notice below has the details.
    """
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="headway-banner"):
        if severity is not None:
            st.badge(severity.word, color=SEVERITIES[severity], help="The severity of the diagnosis on the Overview.")
        st.badge(condition.state.capitalize(), color=_STATES[condition.state])
        if identity.preset:
            st.badge(plain(identity.preset_words), color="primary", help=_since(identity))
        if rung:
            st.badge(f"fallback: {rung}", color="orange")
        st.badge(source, color="gray", help="The source of the figures.")
        if condition.state not in _LOUD and not has_notice:
            st.caption(plain(condition.sentence), width="content")
        st.caption(plain(identity.words), width="content")
    if condition.state in _LOUD:
        _LOUD[condition.state](plain(condition.sentence))
    if note:
        st.info(plain(note))


def _since(identity: Identity) -> str:
    age_s = identity.preset_s
    return "The preset in force." if age_s is None else f"The preset in force, for {duration(round(age_s))}."


def plain(text: str) -> str:
    """Untrusted text, shown as it is: nothing in it is taken for Markdown, HTML or a directive."""
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]()<>#+-!|~$:&" else letter for letter in text)
