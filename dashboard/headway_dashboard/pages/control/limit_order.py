"""The order that holds a fixed limit in place of the preset's, or releases it."""

from __future__ import annotations

import streamlit as st

from headway.api import AdminClient
from headway_dashboard.analysis.changes import commands
from headway_dashboard.analysis.changes.order_costs import here_of, limit_cost
from headway_dashboard.analysis.server.stop_words import limit_order_words
from headway_dashboard.analysis.units import compact
from headway_dashboard.components.banner import plain
from headway_dashboard.pages.control.order_form import order_form
from headway_dashboard.pages.control.results import say
from headway_dashboard.rights import Rights
from headway_dashboard.settings import Settings
from headway_dashboard.sources import StatusSource

HOLD, RELEASE = "hold", "release"
_MAX_SEATS = 65_536
_SEATS = "limit_seats"
#: How long a limit is held, in seconds; None: until the next switch.
_TIMES: dict[str, float | None] = {"5 min": 300.0, "15 min": 900.0, "1 h": 3600.0, "until the next switch": None}


def limit_order(
    settings: Settings,
    server_status: StatusSource,
    rights: Rights,
    *,
    revision: int,
    limit: int | None,
    ceiling: int | None,
) -> None:
    """Draw the order; ``limit`` are the seats that are in force."""
    st.session_state.setdefault(_SEATS, limit or 1)
    st.markdown("**Hold the limit**", help="A fixed number of seats in place of the preset's, without another preset.")
    st.fragment(_limit_now, run_every=settings.refresh_s)(server_status)
    chosen = st.pills("Limit", (HOLD, RELEASE), key="limit_what", disabled=not rights.may_apply)
    if chosen is None:
        st.caption("Choose hold to see its effect; release puts the preset's own limit back.")
        say("limit_result")
        return
    seats, expires_s = _held(rights, ceiling) if chosen == HOLD else (None, None)
    st.fragment(_limit_effect, run_every=settings.refresh_s)(server_status, seats, ceiling)

    def ask(client: AdminClient, reason: str, actor: str) -> str:
        done = client.order_limit(seats, revision=revision, expires_s=expires_s, reason=reason, actor=actor)
        held = f"{done.name} has its own limit again" if seats is None else f"The limit is held at {seats} seats"
        confirmed = "" if done.engine_limit_confirmed else " The engine has not confirmed it."
        return f"{held}, as revision {done.revision}.{confirmed}"

    label = "Release the limit" if seats is None else f"Hold {compact(seats)} seats"
    order_form("limit", chosen, label, settings, rights, ask)
    st.code(commands.limit_call(settings.url, seats, revision, expires_s), language="bash")
    say("limit_result")


def _held(rights: Rights, ceiling: int | None) -> tuple[int, float | None]:
    """The seats and the time that are chosen."""
    off, most = not rights.may_apply, ceiling or _MAX_SEATS
    st.session_state[_SEATS] = min(max(1, st.session_state.get(_SEATS) or 1), most)
    seats = int(st.number_input("Seats", min_value=1, max_value=most, step=1, key=_SEATS, disabled=off))
    chosen = st.selectbox("For", list(_TIMES), key="limit_time", disabled=off)
    return seats, _TIMES[chosen]


def _limit_now(server_status: StatusSource) -> None:
    status = server_status.read()
    if words := limit_order_words(status):
        st.markdown(plain(words))
    else:
        st.markdown("The limit is the preset's." if status.known else "It is shown when the dashboard has a token.")


def _limit_effect(server_status: StatusSource, seats: int | None, ceiling: int | None) -> None:
    st.caption(limit_cost(seats, here_of(server_status.read()), ceiling))
