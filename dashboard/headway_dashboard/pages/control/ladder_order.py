"""The order that sets the fallback ladder to a rung, or makes it automatic."""

from __future__ import annotations

import streamlit as st

from headway.api import AdminClient
from headway_dashboard.analysis.changes import commands
from headway_dashboard.analysis.changes.order_costs import here_of, rung_cost
from headway_dashboard.analysis.server import descriptions
from headway_dashboard.pages.control.order_form import order_form
from headway_dashboard.pages.control.results import say
from headway_dashboard.rights import Rights
from headway_dashboard.settings import Settings
from headway_dashboard.sources import StatusSource

AUTO = "auto"


def ladder_order(settings: Settings, server_status: StatusSource, rights: Rights) -> None:
    """Draw the order."""
    ladder = server_status.read().ladder
    st.markdown("**Fallback ladder**", help="A rung degrades only requests of classes whose preset allows it.")
    st.fragment(_stands, run_every=settings.refresh_s)(server_status)
    words = (*descriptions.orderable(ladder), AUTO)
    chosen = st.pills(
        "Set it to",
        words,
        key="rung",
        format_func=lambda word: "automatic" if word == AUTO else word,
        disabled=not rights.may_apply,
    )
    if chosen is None:
        st.caption(
            "Choose a rung to see its effect. It stays set until the next change here, also across preset switches."
        )
        say("order_result")
        return
    if chosen == AUTO:
        st.caption("The ladder follows the preset's thresholds again.")
    else:
        st.caption(f"From then on, until it is set to automatic: {descriptions.order_words(ladder, chosen)}.")
        st.fragment(_rung_effect, run_every=settings.refresh_s)(server_status, chosen)
    rung = None if chosen == AUTO else chosen

    def ask(client: AdminClient, reason: str, actor: str) -> str:
        now = client.order_fallback(rung, reason=reason, actor=actor)
        if now.ordered:
            return f"The ladder is at {now.rung}, as set here."
        return f"The ladder is automatic again; it is at {now.rung} now."

    order_form("order", chosen, f"Set to {'automatic' if rung is None else rung}", settings, rights, ask)
    st.code(commands.fallback_command(settings.url, rung), language="bash")
    say("order_result")


def _stands(server_status: StatusSource) -> None:
    """The ladder's state now, as the server reports it."""
    words = descriptions.ladder_words(server_status.read().ladder)
    st.markdown(words or "Its state is shown when the dashboard has a token of the server.")


def _rung_effect(server_status: StatusSource, rung: str) -> None:
    words = rung_cost(rung, here_of(server_status.read()))
    if words:
        st.caption(words)
