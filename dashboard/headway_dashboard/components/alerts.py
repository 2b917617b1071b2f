"""The active alerts: the worst in a line, and all of them as a list that opens."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from headway_dashboard.analysis.diagnosis.alerts import Alert
from headway_dashboard.components.banner import plain

_COLOURS = {"critical": "red", "warning": "orange", "info": "blue"}


def alerts(active: Sequence[Alert]) -> None:
    """Draw the first alert as the name of its rule and a sentence; the others are behind their number."""
    if not active:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="headway-alerts"):
        st.markdown(
            f"**Alerts:** {_named(active[0])}",
            help="Conditions of the alert rules that hold now. A rule notifies later.",
            width="content",
        )
        if len(active) > 1:
            with st.popover(f"{len(active) - 1} more", type="tertiary"):
                st.markdown("\n".join(f"- {_named(alert)}" for alert in active))


def _named(alert: Alert) -> str:
    return f":{_COLOURS[alert.severity]}-badge[{alert.name}] {plain(alert.text)}"
