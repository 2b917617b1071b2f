"""The orders of an operator beside a preset, each a card: what it costs the requests that are here, a word to type,
the command that does the same, and the answer. The server checks the token and has the last word.
"""

from __future__ import annotations

import streamlit as st

from headway_dashboard.pages.control.admission_order import admission_order
from headway_dashboard.pages.control.ladder_order import ladder_order
from headway_dashboard.pages.control.limit_order import limit_order
from headway_dashboard.pages.control.recycle_order import recycle_order
from headway_dashboard.pages.control.warmup_order import warmup_order
from headway_dashboard.rights import Rights
from headway_dashboard.settings import Settings
from headway_dashboard.sources import StatusSource

_COLUMN_PX = 360


def show(
    settings: Settings,
    server_status: StatusSource,
    rights: Rights,
    *,
    revision: int,
    limit: int | None,
    ceiling: int | None,
) -> None:
    """Draw the orders beside each other; ``limit`` are the seats that are in force."""
    seen = (settings, server_status, rights)
    st.markdown("#### Operator actions")
    with st.grid(3, min_column_width=_COLUMN_PX, gap="small", key="headway-orders"):
        with st.container(border=True, height="stretch", gap="small", key="headway-order-admission"):
            admission_order(*seen)
        with st.container(border=True, height="stretch", gap="small", key="headway-order-limit"):
            limit_order(*seen, revision=revision, limit=limit, ceiling=ceiling)
        with st.container(border=True, height="stretch", gap="small", key="headway-order-ladder"):
            ladder_order(*seen)
        with st.container(border=True, height="stretch", gap="small", key="headway-order-warmup"):
            warmup_order(*seen, limit=limit)
        with st.container(border=True, height="stretch", gap="small", key="headway-order-recycle"):
            recycle_order(*seen)
