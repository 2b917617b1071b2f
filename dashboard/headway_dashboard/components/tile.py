"""A key figure: what it is, its value now, and how it went."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from headway_dashboard.analysis.model import Point


def tile(label: str, value: str, *, explanation: str, course: Sequence[Point] = (), note: str = "") -> None:
    """Draw one tile. ``course`` is its last minutes; gaps are left out. ``note`` says when the value is not of now."""
    known = [point for point in course if point is not None]
    st.metric(
        label,
        value,
        help=explanation,
        border=True,
        height="stretch",
        chart_data=known if len(known) > 1 else None,
        chart_type="area",
        delta=note or None,
        delta_arrow="off",
        delta_color="off" if note else "blue",
    )
