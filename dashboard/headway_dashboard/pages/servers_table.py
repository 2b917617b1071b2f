"""The table of several servers on the page Server & diagnostics."""

from __future__ import annotations

import time

import streamlit as st

from headway_dashboard.analysis.server.server_rows import EXPRESSIONS, server_rows
from headway_dashboard.analysis.view import Span
from headway_dashboard.components.banner import plain
from headway_dashboard.pages.head import recent
from headway_dashboard.sources import ChosenSource, Source

_HELP = "One row each, whichever server is chosen in the bar. A server that does not answer is compared with none."


def servers_table(source: Source, span: Span) -> None:
    """Draw it; nothing where there is only one server."""
    whole = source.whole if isinstance(source, ChosenSource) else source
    if len(whole.read((), 0.0).instances) < 2:
        return
    newest = recent(whole, EXPRESSIONS, span)
    found = server_rows(newest, time.time())
    with st.container(border=True, gap="xsmall", key="headway-servers"):
        st.markdown("**Servers**", help=_HELP)
        if found.current:
            _table(found.current)
        if len(found.current) > 1:
            st.caption(plain(found.rule))
        if found.away:
            st.markdown(f"**No answer: {len(found.away)} of {len(newest.instances)}**")
            _table(found.away)


def _table(rows: list[dict[str, str]]) -> None:
    shown = [{key: plain(text) for key, text in row.items()} for row in rows]
    st.table(shown, border="horizontal", hide_index=True)
