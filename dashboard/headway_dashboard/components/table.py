"""A table of texts, each shown as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from headway_dashboard.analysis.server.class_states import Cell
from headway_dashboard.components.banner import plain


def table(rows: Sequence[Mapping[str, str | Cell]], empty: str = "") -> None:
    """Draw the rows under the names of their columns; without rows a sentence in their place."""
    if rows:
        shown = [{title: _text(cell) for title, cell in row.items()} for row in rows]
        st.table(shown, border="horizontal", hide_index=True)
    elif empty:
        st.caption(empty)


def _text(cell: str | Cell) -> str:
    if isinstance(cell, str):
        return plain(cell)
    return plain(cell.text) if cell.tone == "off" else f":{cell.tone}[**{plain(cell.text)}**]"
