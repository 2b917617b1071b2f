"""The order that warms the running engine up, beside its requests."""

from __future__ import annotations

import streamlit as st

from headway.api import AdminClient
from headway_dashboard.analysis.changes import commands
from headway_dashboard.analysis.changes.order_costs import here_of, warmup_cost
from headway_dashboard.analysis.changes.order_results import warming
from headway_dashboard.pages.control.order_form import order_form
from headway_dashboard.pages.control.results import say
from headway_dashboard.rights import Rights
from headway_dashboard.settings import Settings
from headway_dashboard.sources import StatusSource

WARM_UP = "warm up"


def warmup_order(settings: Settings, server_status: StatusSource, rights: Rights, *, limit: int | None) -> None:
    """Draw the order; ``limit`` are the seats that are in force."""
    st.markdown("**Warm the engine up**", help="The warm-up of the preset in force runs once more.")
    st.markdown(
        "Its requests run once, past the queue and counted nowhere, for some seconds. The server stays ready, no "
        "request is refused, and a failure changes nothing. One runs at a time."
    )
    st.fragment(_effect, run_every=settings.refresh_s)(server_status, limit)
    order_form("warmup", WARM_UP, "Warm the engine up", settings, rights, _ask)
    st.code(commands.warmup_command(settings.url), language="bash")
    say("warmup_result")


def _effect(server_status: StatusSource, limit: int | None) -> None:
    status = server_status.read()
    st.caption("A warm-up runs now." if status.warmup.ordered else warmup_cost(here_of(status), limit))


def _ask(client: AdminClient, reason: str, actor: str) -> str:
    return warming(client.warm_up(reason=reason, actor=actor))
