"""The active alerts: the worst in a line, and all of them as a list that opens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo

import streamlit as st

from headway.api.schema import Silence
from headway_dashboard.analysis.changes.audit_rows import clock
from headway_dashboard.analysis.diagnosis.alerts import Alert
from headway_dashboard.components.banner import plain

_COLOURS = {"critical": "red", "warning": "orange", "info": "blue"}


def alerts(active: Sequence[Alert], zone: tzinfo, runbooks_url: str = "") -> None:
    """Draw the first alert as the name of its rule and a sentence; the list is behind the number of all.

    Alerts with a silence come last, and stand in the line only as their number. ``runbooks_url`` is the page that has a
    section for each alert.
    """
    if not active:
        return
    silent = sum(alert.silence is not None for alert in active)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="headway-alerts"):
        st.markdown(
            f"**Alerts:** {_named(active[0]) if silent < len(active) else f'{silent} silenced'}",
            help="Alert rules whose condition is met now. A rule notifies later. Control silences an alert.",
            width="content",
        )
        more = f"{len(active)} in all" if len(active) > 1 else "More on it"
        if 0 < silent < len(active):
            more += f", {silent} silenced"
        with st.popover(more, type="tertiary"):
            for alert in active:
                said = f":small[{plain(facts(alert, zone))}]  \n:small[{alert.action}]"
                st.markdown(f"{_named(alert)}  \n{said}{_link(alert, runbooks_url)}")


def facts(alert: Alert, zone: tzinfo) -> str:
    """Since when it holds, of which class, its value now, when it fires, and its silence."""
    return " · ".join(
        part
        for part in (
            _since(alert, zone),
            f"class {alert.of}" if alert.of else "",
            f"now {alert.value}" if alert.value else "",
            f"fires at: {alert.fires_at}" if alert.fires_at else "",
            _silence(alert.silence, zone),
        )
        if part
    )


def _since(alert: Alert, zone: tzinfo) -> str:
    if alert.since_s is None:
        return ""
    clock = datetime.fromtimestamp(alert.since_s, zone).strftime("%H:%M:%S")
    return f"since {clock}{'' if alert.seen else ' at least'}"


def _silence(silence: Silence | None, zone: tzinfo) -> str:
    if silence is None:
        return ""
    until = clock(silence.ends, zone)
    return (
        f"silent until {until}, by {silence.actor or 'nobody named'}{f': {silence.reason}' if silence.reason else ''}"
    )


def _link(alert: Alert, runbooks_url: str) -> str:
    return f" [Runbook]({runbooks_url}#{alert.name.lower()})" if runbooks_url else ""


def _named(alert: Alert) -> str:
    return f":{_COLOURS[alert.severity]}-badge[{alert.name}] {plain(alert.text)}"
