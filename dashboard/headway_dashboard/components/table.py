"""A table of texts, each shown as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from headway_dashboard.components.banner import plain


def table(rows: Sequence[Mapping[str, str]], empty: str = "") -> None:
    """Draw the rows under the names of their columns; without rows a sentence in their place."""
    if rows:
        shown = [{title: plain(text) for title, text in row.items()} for row in rows]
        st.table(shown, border="horizontal", hide_index=True)
    elif empty:
        st.caption(empty)
