"""The headline: the severity in a word and a colour, the sentence, and the best remedy with its cost and command."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from headway_dashboard.analysis.headline import Headline
from headway_dashboard.components.banner import Colour, plain
from headway_policies.diagnosis import Remedy, Severity

_COLOURS: Mapping[Severity, Colour] = {
    Severity.OK: "green",
    Severity.WATCH: "blue",
    Severity.DEGRADED: "orange",
    Severity.OVERLOADED: "red",
    Severity.DOWN: "red",
}


def headline(one: Headline) -> None:
    """Draw the headline. A command stands in a block of its own, from which it can be copied."""
    badge = "" if one.severity is None else f":{_COLOURS[one.severity]}-badge[{one.severity.word}] "
    with st.container(gap="xsmall", key="headway-headline"):
        st.markdown(f"#### {badge}{plain(one.statement)}")
        if one.symptoms:
            st.markdown("\n".join(f"- {plain(text)}" for text in one.symptoms))
        if one.remedy is not None:
            _remedy(one.remedy)


def _remedy(remedy: Remedy) -> None:
    st.markdown(f"**What would help:** {plain(remedy.action)}. **Cost:** {plain(remedy.cost)}.")
    if remedy.command:
        st.code(remedy.command, language="bash")
