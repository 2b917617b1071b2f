"""The order that replaces the engine by another one."""

from __future__ import annotations

import streamlit as st

from headway.api import AdminClient
from headway_dashboard.analysis.changes import commands
from headway_dashboard.analysis.changes.order_costs import here_of, recycle_cost
from headway_dashboard.pages.control.order_form import order_form
from headway_dashboard.pages.control.results import say
from headway_dashboard.rights import Rights
from headway_dashboard.settings import Settings
from headway_dashboard.sources import StatusSource

RECYCLE = "recycle"


def recycle_order(settings: Settings, server_status: StatusSource, rights: Rights) -> None:
    """Draw the order."""
    st.markdown("**Recycle the engine**", help="The running engine is replaced by another one.")
    st.markdown(
        "Where memory allows two engines, the new one is started first, while the old one serves. Then running "
        "requests finish, within the preset's time; new ones wait until the engine is replaced, without room for two "
        "as long as loading the model takes. Time-outs keep running meanwhile."
    )
    st.fragment(_effect, run_every=settings.refresh_s)(server_status)
    order_form("recycle", RECYCLE, "Recycle the engine", settings, rights, _ask)
    st.code(commands.recycle_command(settings.url), language="bash")
    say("recycle_result")


def _effect(server_status: StatusSource) -> None:
    st.caption(recycle_cost(here_of(server_status.read())))


def _ask(client: AdminClient, reason: str, actor: str) -> str:
    taken = client.recycle(reason=reason, actor=actor).seats_taken
    still = f"{taken} seats are still taken. " if taken else ""
    return f"Accepted. {still}Its progress is shown at the top of this page, its end in the audit log."
