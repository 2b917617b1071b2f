"""The severity band: which class is hit and how badly, since when, why, and what helps with its cost and command."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from headway_dashboard.analysis.diagnosis.headline import Headline
from headway_dashboard.components.banner import SEVERITIES, plain
from headway_policies.diagnosis import Remedy

#: So many further troubles stand in the band; the others are in its help.
_MORE = 2


def headline(
    one: Headline,
    since: str = "",
    act: Callable[[Remedy], None] | None = None,
    tell: Callable[[], None] | None = None,
) -> None:
    """Draw the band. A command stands in a block of its own, from which it can be copied.

    ``act`` draws the button of the remedy, ``tell`` what stands at the right of the first line.
    """
    badge = "" if one.severity is None else f":{SEVERITIES[one.severity]}-badge[{one.severity.word}] "
    word = "unknown" if one.severity is None else one.severity.word
    with st.container(gap="xxsmall", key="headway-headline"), st.container(gap="xxsmall", key=f"headway-band-{word}"):
        began = f" :small[{plain(since)}]" if since else ""
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            more = "\n".join(f"- {plain(text)}" for text in one.more[_MORE:])
            st.markdown(f"#### {badge}{plain(one.lead)}{began}", help=more, width="stretch")
            if tell is not None:
                tell()
        if one.more:
            st.markdown(" · ".join(plain(text) for text in one.more[:_MORE]))
        if one.why:
            st.markdown(f"**Why:** {plain(one.why)}")
        if one.remedy is not None:
            _remedy(one.remedy, act)


def _remedy(remedy: Remedy, act: Callable[[Remedy], None] | None) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"**Remedy:** {plain(remedy.action)}. **Cost:** {plain(remedy.cost)}.", width="stretch")
        if remedy.command:
            st.code(remedy.command, language="bash", width="content")
        if act is not None:
            act(remedy)
