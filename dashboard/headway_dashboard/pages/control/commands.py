"""The commands of an operator beside a preset, in cards: one table, and one form for all of them.

A card shows how things stand, what may be chosen, what the choice costs the requests that are here, a word to type, the
command that does the same, and the answer. The server checks the token and has the last word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

from headway.api import AdminClient
from headway_dashboard.analysis.catalogue.alerts import RULES
from headway_dashboard.analysis.changes import command_words
from headway_dashboard.analysis.changes.commands import command, limit_call
from headway_dashboard.analysis.server import descriptions, stop_words
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.analysis.units import counted
from headway_dashboard.components.banner import plain
from headway_dashboard.pages.control.command_form import Ask, command_form
from headway_dashboard.pages.control.results import say
from headway_dashboard.rights import Rights
from headway_dashboard.settings import Settings
from headway_dashboard.sources import StatusSource

_COLUMN_PX = 360
_MAX_SEATS = 65_536
_SEATS = "limit_seats"
AUTO, SET = "auto", "set"
SILENCE, END = "silence", "end"
#: How long a pause or a held limit lasts, in seconds; None: until it is ended.
_PAUSE_TIMES: Mapping[str, float | None] = {"until Resume": None, "1 min": 60.0, "5 min": 300.0, "1 h": 3600.0}
_LIMIT_TIMES: Mapping[str, float | None] = {
    "5 min": 300.0, "15 min": 900.0, "1 h": 3600.0, "until the next switch": None,
}  # fmt: skip
_SILENCE_TIMES: Mapping[str, float] = {"15 min": 900.0, "1 h": 3600.0, "8 h": 28_800.0, "24 h": 86_400.0}


@dataclass(frozen=True, slots=True)
class Seen:
    """The state that the page shows: the server, its status, and the revision and the seats that are in force."""

    url: str
    status: Status
    off: bool
    revision: int
    limit: int | None
    ceiling: int | None


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its button, its cost by the newest status, its line for a shell, and how it is sent."""

    label: str
    cost: Callable[[Status], str]
    line: str
    ask: Ask


@dataclass(frozen=True, slots=True)
class Card:
    """The commands of one kind.

    ``command`` draws what else there is to choose, and makes the command of a word, which confirms it. ``choices`` are
    the words under their title; without a title there is one. ``now`` says how things stand, ``idle`` stands there
    until a word is chosen.
    """

    key: str
    title: str
    help: str
    choices: Callable[[Status], Sequence[str]]
    command: Callable[[str, Seen], Command]
    about: str = ""
    choose: str = ""
    idle: str = ""
    now: Callable[[Status], str] | None = None


def show(
    settings: Settings,
    server_status: StatusSource,
    rights: Rights,
    *,
    revision: int,
    limit: int | None,
    ceiling: int | None,
) -> None:
    """Draw the commands beside each other; ``limit`` are the seats that are in force."""
    seen = Seen(settings.url, server_status.read(), not rights.may_apply, revision, limit, ceiling)
    st.markdown("#### Operator actions")
    with st.grid(3, min_column_width=_COLUMN_PX, gap="small", key="headway-commands"):
        for card in CARDS:
            with st.container(border=True, height="stretch", gap="small", key=f"headway-command-{card.key}"):
                _draw(card, settings, server_status, rights, seen)


def _draw(card: Card, settings: Settings, server_status: StatusSource, rights: Rights, seen: Seen) -> None:
    st.markdown(f"**{card.title}**", help=card.help)
    if card.about:
        st.markdown(card.about)
    if card.now is not None:
        st.fragment(_stands, run_every=settings.refresh_s)(server_status, card.now)
    words = card.choices(seen.status)
    chosen: str | None = words[0]
    if card.choose:
        chosen = st.pills(card.choose, words, key=f"{card.key}_what", format_func=_named, disabled=seen.off)
    if chosen is None:
        st.caption(card.idle)
    else:
        chosen_command = card.command(chosen, seen)
        st.fragment(_effect, run_every=settings.refresh_s)(server_status, chosen_command.cost)
        command_form(card.key, chosen, chosen_command.label, settings, rights, chosen_command.ask)
        st.code(chosen_command.line, language="bash")
    say(f"{card.key}_result")


def _stands(server_status: StatusSource, now: Callable[[Status], str]) -> None:
    words = now(server_status.read())
    st.markdown(words or "Its state is shown when the dashboard has a token of the server.")


def _effect(server_status: StatusSource, cost: Callable[[Status], str]) -> None:
    if words := cost(server_status.read()):
        st.caption(words)


def _named(word: str) -> str:
    return "automatic" if word == AUTO else word


# ---------------------------------------------------------------------- pause, drain, resume


def _dispatch(word: str, seen: Seen) -> Command:
    match word:
        case "pause":
            return _pause(seen)
        case "drain":
            return Command(
                "Drain the server",
                command_words.drain_cost,
                command(seen.url, "drain"),
                lambda client, reason, actor: command_words.drained(client.drain(reason=reason, actor=actor)),
            )
        case _:
            return Command(
                "Resume dispatch",
                command_words.resume_cost,
                command(seen.url, "resume"),
                lambda client, reason, actor: command_words.resumed(client.resume(reason=reason, actor=actor)),
            )


def _pause(seen: Seen) -> Command:
    expires_s = _PAUSE_TIMES[st.selectbox("For", list(_PAUSE_TIMES), key="admission_time", disabled=seen.off)]

    def ask(client: AdminClient, reason: str, actor: str) -> str:
        return command_words.paused(client.pause(expires_s=expires_s, reason=reason, actor=actor))

    ends = [] if expires_s is None else ["--for", f"{expires_s:g}s"]
    return Command("Pause dispatch", command_words.pause_cost, command(seen.url, "pause", *ends), ask)


# ---------------------------------------------------------------------- a held limit


def _limit(word: str, seen: Seen) -> Command:
    seats, expires_s = _wanted(seen) if word == SET else (None, None)

    def ask(client: AdminClient, reason: str, actor: str) -> str:
        done = client.order_limit(seats, revision=seen.revision, expires_s=expires_s, reason=reason, actor=actor)
        return command_words.limited(done, seats)

    return Command(
        "Release the limit" if seats is None else f"Set {counted(seats, 'seat', 'seats')}",
        lambda status: command_words.limit_cost(seats, status, seen.ceiling),
        limit_call(seen.url, seats, seen.revision, expires_s),
        ask,
    )


def _wanted(seen: Seen) -> tuple[int, float | None]:
    """The seats and the time that are chosen; at first those that are in force."""
    most = seen.ceiling or _MAX_SEATS
    st.session_state[_SEATS] = min(max(1, st.session_state.get(_SEATS) or seen.limit or 1), most)
    seats = int(st.number_input("Seats", min_value=1, max_value=most, step=1, key=_SEATS, disabled=seen.off))
    return seats, _LIMIT_TIMES[st.selectbox("For", list(_LIMIT_TIMES), key="limit_time", disabled=seen.off)]


def _limit_now(status: Status) -> str:
    if words := stop_words.operator_limit_words(status):
        return plain(words)
    return "The limit is the preset's." if status.known else ""


# ---------------------------------------------------------------------- the ladder


def _ladder(word: str, seen: Seen) -> Command:
    rung = None if word == AUTO else word

    def ask(client: AdminClient, reason: str, actor: str) -> str:
        return command_words.laddered(client.order_fallback(rung, reason=reason, actor=actor))

    def cost(status: Status) -> str:
        if rung is None:
            return "The ladder follows the preset's thresholds again."
        effect = descriptions.rung_effect(status.ladder, rung)
        words = f"From then on, until it is set to automatic: {effect}. {command_words.rung_cost(rung, status)}"
        return words.strip()

    given = ["auto"] if rung is None else ["set", rung]
    return Command(f"Set to {_named(word)}", cost, command(seen.url, "fallback", *given), ask)


# ---------------------------------------------------------------------- the alerts


def _silence(word: str, seen: Seen) -> Command:
    silent = [silence.alert for silence in seen.status.silences]
    names = silent if word == END else sorted(rule.name for rule in RULES)
    name = st.selectbox("Alert", names, key=f"silence_{word}", disabled=seen.off)
    expires_s = None
    if word != END:
        expires_s = _SILENCE_TIMES[st.selectbox("For", list(_SILENCE_TIMES), key="silence_time", disabled=seen.off)]

    def ask(client: AdminClient, reason: str, actor: str) -> str:
        client.silence(name, expires_s, reason=reason, actor=actor)
        return f"The silence of {name} has ended." if expires_s is None else f"{name} is silent."

    until = ["--end"] if expires_s is None else ["--for", f"{expires_s:g}s"]
    effect = "shown as before" if expires_s is None else "listed apart, for everybody who watches this server"
    return Command(
        "End the silence" if expires_s is None else "Silence the alert",
        lambda status: f"The alert is {effect}. Alertmanager has silences of its own.",
        command(seen.url, "silence", name, *until),
        ask,
    )


def _silences_now(status: Status) -> str:
    if status.silences:
        return plain("Silent: " + ", ".join(silence.alert for silence in status.silences))
    return "No alert is silent." if status.known else ""


# ---------------------------------------------------------------------- the engine


def _warm_up(word: str, seen: Seen) -> Command:
    return Command(
        "Warm the engine up",
        lambda status: command_words.warmup_cost(status, seen.limit),
        command(seen.url, "warmup"),
        lambda client, reason, actor: command_words.warming(client.warm_up(reason=reason, actor=actor)),
    )


def _recycle(word: str, seen: Seen) -> Command:
    return Command(
        "Recycle the engine",
        command_words.recycle_cost,
        command(seen.url, "recycle"),
        lambda client, reason, actor: command_words.recycling(client.recycle(reason=reason, actor=actor).seats_taken),
    )


CARDS = (
    Card(
        "admission",
        "Pause, drain, resume",
        "A pause lets requests wait, a drain refuses them; a resume ends both.",
        lambda status: ("pause", "drain", "resume"),
        _dispatch,
        choose="Dispatch",
        idle="Choose an action to see its effect. A drain lasts until Resume, a pause until then or its own end, also "
        "across preset switches.",
        now=lambda status: plain(stop_words.admission_words(status)),
    ),
    Card(
        "limit",
        "Set the limit",
        "A fixed number of seats in place of the preset's, without another preset.",
        lambda status: (SET, "release"),
        _limit,
        choose="Limit",
        idle="Choose set to see its effect; release puts the preset's own limit back.",
        now=_limit_now,
    ),
    Card(
        "ladder",
        "Fallback ladder",
        "A rung degrades only requests of classes whose preset allows it.",
        lambda status: (*descriptions.settable(status.ladder), AUTO),
        _ladder,
        choose="Set it to",
        idle="Choose a rung to see its effect. The rung stays until the next change here, also across preset switches.",
        now=lambda status: descriptions.ladder_words(status.ladder),
    ),
    Card(
        "silence",
        "Silence an alert",
        "A known alert is listed apart for a time, with your name and the reason.",
        lambda status: (SILENCE, END) if status.silences else (SILENCE,),
        _silence,
        choose="Action",
        idle="Choose an action to see its effect. A silence ends by itself, and with the server.",
        now=_silences_now,
    ),
    Card(
        "warmup",
        "Warm the engine up",
        "The warm-up of the preset in force runs once more.",
        lambda status: ("warm up",),
        _warm_up,
        about="The requests of the warm-up bypass the queue for some seconds, and no figure counts them. The server "
        "stays ready, no request is refused, and a failure changes nothing. One warm-up runs at a time.",
    ),
    Card(
        "recycle",
        "Recycle the engine",
        "The running engine is replaced by another one.",
        lambda status: ("recycle",),
        _recycle,
        about="Where memory allows two engines, the new one is started first, while the old one serves. Then running "
        "requests finish, within the preset's time; new ones wait until the engine is replaced, without room for two "
        "as long as loading the model takes. Time-outs keep running meanwhile.",
    ),
)
