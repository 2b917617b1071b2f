"""The active alerts in one line; nothing where there is none."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from headway_dashboard.analysis.diagnosis.alerts import Alert
from headway_dashboard.components.banner import plain

_COLOURS = {"critical": "red", "warning": "orange", "info": "blue"}


def alerts(active: Sequence[Alert]) -> None:
    """Draw each alert as the name of its rule and a sentence, all in one line."""
    if not active:
        return
    words = " · ".join(f":{_COLOURS[alert.severity]}-badge[{alert.name}] {plain(alert.text)}" for alert in active)
    st.markdown(f"**Alerts:** {words}", help="Conditions of the alert rules that hold now. A rule notifies later.")
