"""The orders that stop dispatch, and the one that ends them: pause, drain, resume."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import streamlit as st

from headway.api import AdminClient, AdmissionChanged
from headway_dashboard.analysis.changes import commands
from headway_dashboard.analysis.changes.order_costs import Here, drain_cost, here_of, pause_cost, resume_cost
from headway_dashboard.analysis.changes.order_results import drained, paused, resumed
from headway_dashboard.analysis.server.stop_words import admission_words
from headway_dashboard.components.banner import plain
from headway_dashboard.pages.control.order_form import order_form
from headway_dashboard.pages.control.results import say
from headway_dashboard.rights import Rights
from headway_dashboard.settings import Settings
from headway_dashboard.sources import StatusSource


@dataclass(frozen=True, slots=True)
class AdmissionOrder:
    """One order: its button, its cost, its command, how it is sent, what its answer says, and whether it may end."""

    label: str
    cost: Callable[[Here], str]
    command: Callable[..., str]
    send: Callable[..., AdmissionChanged]
    result: Callable[[AdmissionChanged], str]
    may_end: bool = False


#: The orders by the word that confirms each.
ORDERS: Mapping[str, AdmissionOrder] = {
    "pause": AdmissionOrder(
        "Pause dispatch", pause_cost, commands.pause_command, AdminClient.pause, paused, may_end=True
    ),
    "drain": AdmissionOrder("Drain the server", drain_cost, commands.drain_command, AdminClient.drain, drained),
    "resume": AdmissionOrder("Resume dispatch", resume_cost, commands.resume_command, AdminClient.resume, resumed),
}
#: How long a pause lasts, in seconds; None: until Resume.
_TIMES: Mapping[str, float | None] = {"until Resume": None, "1 min": 60.0, "5 min": 300.0, "1 h": 3600.0}


def admission_order(settings: Settings, server_status: StatusSource, rights: Rights) -> None:
    """Draw the orders."""
    st.markdown(
        "**Pause, drain, resume**", help="A pause lets requests wait, a drain refuses them; a resume ends both."
    )
    st.fragment(_now, run_every=settings.refresh_s)(server_status)
    chosen = st.pills("Dispatch", tuple(ORDERS), key="admission_what", disabled=not rights.may_apply)
    if chosen is None:
        st.caption(
            "Choose one to see its effect. A drain lasts until Resume, a pause until then or its own end, also across "
            "preset switches."
        )
        say("admission_result")
        return
    order = ORDERS[chosen]
    terms = _terms(rights) if order.may_end else {}
    st.fragment(_effect, run_every=settings.refresh_s)(server_status, order)

    def ask(client: AdminClient, reason: str, actor: str) -> str:
        return order.result(order.send(client, reason=reason, actor=actor, **terms))

    order_form("admission", chosen, order.label, settings, rights, ask)
    st.code(order.command(settings.url, **terms), language="bash")
    say("admission_result")


def _terms(rights: Rights) -> dict[str, float]:
    """The end that is chosen, as an argument; none where Resume ends it."""
    chosen = _TIMES[st.selectbox("For", list(_TIMES), key="admission_time", disabled=not rights.may_apply)]
    return {} if chosen is None else {"expires_s": chosen}


def _now(server_status: StatusSource) -> None:
    words = admission_words(server_status.read())
    st.markdown(plain(words) if words else "Its state is shown when the dashboard has a token of the server.")


def _effect(server_status: StatusSource, order: AdmissionOrder) -> None:
    st.caption(order.cost(here_of(server_status.read())))
