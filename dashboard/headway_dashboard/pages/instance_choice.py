"""The choice of one of several servers, in the bar above every page."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from headway_dashboard.analysis.server.instances import ALL_INSTANCES, INSTANCE


def instance_choice(names: Sequence[str]) -> None:
    """Draw the choice; nothing where there is only one server. Streamlit keeps it in the address of the page."""
    if not names:
        return
    st.selectbox(
        "Server",
        (ALL_INSTANCES, *names),
        key=INSTANCE,
        bind="query-params",
        width=220,
        help="all: counts and rates are summed, and histograms merged before a quantile is read from them.",
    )
