"""A key figure: what it is, its value now, and how it went."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from headway_dashboard.analysis.queries.model import Point
from headway_dashboard.analysis.server.newest_values import TileText
from headway_dashboard.components.banner import plain


def tile(text: TileText, course: Sequence[Point] = ()) -> None:
    """Draw one tile. ``course`` is its last minutes; gaps are left out."""
    known = [point for point in course if point is not None]
    st.metric(
        text.label,
        text.value,
        help=text.explanation,
        border=True,
        height="stretch",
        chart_data=known if len(known) > 1 else None,
        chart_type="area",
        delta=plain(text.note) or None,
        delta_arrow="off",
        delta_color=text.tone if text.note else "blue",
    )
