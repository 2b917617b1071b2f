"""A key figure: what it is, its value now, and how it went."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from headway_dashboard.analysis.queries.model import Point
from headway_dashboard.analysis.server.newest_values import Tone
from headway_dashboard.components.banner import plain


def tile(
    label: str, value: str, *, explanation: str, course: Sequence[Point] = (), note: str = "", tone: Tone = "off"
) -> None:
    """Draw one tile. ``course`` is its last minutes; gaps are left out.

    ``note`` says what the value is of, or whether it keeps its bound, in the colour ``tone``.
    """
    known = [point for point in course if point is not None]
    st.metric(
        label,
        value,
        help=explanation,
        border=True,
        height="stretch",
        chart_data=known if len(known) > 1 else None,
        chart_type="area",
        delta=plain(note) or None,
        delta_arrow="off",
        delta_color=tone if note else "blue",
    )
