"""The headline: the severity in a word and a colour, the sentence, and the best remedy with its cost and command."""

from __future__ import annotations

import streamlit as st

from headway_dashboard.analysis.diagnosis.headline import Headline
from headway_dashboard.components.banner import SEVERITIES, plain
from headway_policies.diagnosis import Remedy


def headline(one: Headline) -> None:
    """Draw the headline. A command stands in a block of its own, from which it can be copied."""
    badge = "" if one.severity is None else f":{SEVERITIES[one.severity]}-badge[{one.severity.word}] "
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
