"""The commands of the page Control, and what each order costs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable

import pytest

from headway.api import AdmissionChanged, WarmupAccepted
from headway.api.schema import OperatorStop
from headway_dashboard.analysis.changes import command_words, commands
from headway_dashboard.analysis.changes.command_words import (
    drain_cost,
    limit_cost,
    pause_cost,
    recycle_cost,
    resume_cost,
    rung_cost,
    warmup_cost,
)
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.analysis.server.stop_words import admission_words
from headway_tools.cli import _parser

URL = "http://127.0.0.1:8000"
COMMANDS = (
    ("preset", "keep"),
    ("preset", "undo"),
    ("preset", "undo", "3"),
    ("fallback", "auto"),
    ("fallback", "set", "shed"),
    ("recycle",),
    ("pause",),
    ("pause", "--for", "300s"),
    ("drain",),
    ("resume",),
    ("warmup",),
)
CONDITIONS = ("realtime.ttft_p95_s > 2 for 30 s", "error_ratio > 0.05 for 30 s")


def here(running: int, waiting: int) -> Status:
    """The status of a server with so many requests."""
    return Status(known=True, seats_taken=running, queued=waiting)


@pytest.mark.parametrize(
    "command",
    [
        commands.use_command(URL, "latency"),
        commands.use_command(URL, "latency", reason="a 'quoted' $reason; --json", revert_after_s=600.0),
        commands.use_command(URL, "latency", revert_after_s=86_400.0, revert_if=CONDITIONS),
        commands.use_command(URL, "latency", reason="--json"),
        *(commands.command(URL, *words) for words in COMMANDS),
    ],
)
def test_every_command_is_one_of_headway(command: str) -> None:
    """The parser of the command line takes it, with the server's URL."""
    name, *words = shlex.split(command)
    assert name == "headway"
    assert _parser().parse_args(words).url == URL


def test_the_terms_of_a_trial_reach_the_command() -> None:
    """The same time and the same conditions."""
    _, *words = shlex.split(commands.use_command(URL, "latency", revert_after_s=90.0, revert_if=CONDITIONS))
    chosen = _parser().parse_args(words)
    assert chosen.revert_after == 90.0
    assert tuple(map(str, chosen.revert_if)) == CONDITIONS


def test_the_call_that_holds_a_limit_names_a_variable_and_no_token() -> None:
    """Its body is that of the order, its revision the one on the page."""
    words = shlex.split(commands.limit_call(URL, 16, 3, 300.0))
    assert "Authorization: Bearer $HEADWAY_ADMIN_TOKEN" in words
    assert 'If-Match: "3"' in words
    assert json.loads(words[words.index("-d") + 1]) == {"seats": 16, "expires_s": 300.0}
    assert words[-1] == f"{URL}/headway/v1/limit"


def test_a_recycle_costs_the_wait_of_all_that_are_here() -> None:
    """Running requests finish, waiting ones keep waiting."""
    assert recycle_cost(here(3, 37)) == (
        "Now: 3 running requests finish first; 37 waiting requests keep waiting until the engine is replaced."
    )
    assert recycle_cost(here(1, 0)).startswith("Now: 1 running request finishes first; no request waits")
    assert "37" not in recycle_cost(Status())


@pytest.mark.parametrize(
    ("seats", "status", "words"),
    [
        (8, here(20, 37), "12 of 20 running requests finish before the next is dispatched; 37 waiting requests keep"),
        (32, here(20, 37), "12 waiting requests can be dispatched at once; 25 waiting requests keep waiting"),
        (20, here(20, 1), "Now: 1 waiting request keeps waiting."),
        (19, here(20, 1), "1 of 20 running requests finishes before the next is dispatched; 1 waiting request keeps"),
        (100, Status(), "refuses more than the 64 seats"),
        (8, Status(), "waiting requests wait longer"),
        (None, here(20, 37), "own limit returns"),
    ],
)
def test_a_held_limit_costs_what_does_not_fit(seats: int | None, status: Status, words: str) -> None:
    """By the requests that are here."""
    assert words in limit_cost(seats, status, 64)


def test_a_pause_keeps_all_waiting() -> None:
    """Until it is taken back; a rung whose cost is not known from the numbers says nothing."""
    assert "37 waiting requests keep waiting until the command ends" in rung_cost("pause", here(3, 37))
    assert "of 37 waiting requests those of sheddable classes" in rung_cost("shed", here(3, 37))
    assert rung_cost("cap", here(3, 37)) == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            pause_cost(here(1, 37)),
            "Now: 1 running request finishes; 37 waiting requests keep waiting, and new ones wait",
        ),
        (pause_cost(Status()), "Running requests finish; waiting and new ones wait until Resume."),
        (drain_cost(here(3, 1)), "Now: 3 running requests finish; 1 waiting request is refused. New ones are refused"),
        (drain_cost(here(0, 0)), "Now: no request runs; no request waits. New ones are refused with Retry-After"),
        (drain_cost(Status()), "waiting and new ones are refused"),
        (resume_cost(here(3, 37)), "Now: 37 waiting requests are dispatched as seats are free."),
        (resume_cost(here(3, 0)), "Now: no request waits; new ones are admitted"),
        (resume_cost(Status()), "Waiting requests are dispatched as seats are free"),
        (warmup_cost(here(3, 37), 8), "Now: batches of at most 5 beside 3 running requests"),
        (warmup_cost(here(9, 0), 8), "batches of at most 1 beside 9 running requests"),
        (warmup_cost(here(0, 0), 8), "Now: batches of at most 8 on an idle engine"),
        (warmup_cost(Status(), 8), "take the free seats"),
        (warmup_cost(here(1, 1), None), "take the free seats"),
    ],
)
def test_each_order_says_what_it_costs(words: str, expected: str) -> None:
    """By the requests that are here, and without numbers where they are not known."""
    assert expected in words


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (Status(), ""),
        (Status(known=True, admission="open"), "Requests are dispatched."),
        (Status(known=True, admission="paused", blocks=("operator",)), "Paused by an operator."),
        (Status(known=True, admission="draining"), "The server closes: new requests are refused."),
        (
            Status(known=True, admission="paused", blocks=("engine_asleep", "recycle")),
            "Dispatch is blocked by the sleeping engine, a recycle, and resumes by itself.",
        ),
        (Status(known=True, admission="paused", blocks=("some_day",)), "Dispatch is blocked by some day, and"),
        (Status(known=True, admission="paused"), "Dispatch is blocked."),
    ],
)
def test_the_state_of_admission_is_named_with_its_cause(status: Status, words: str) -> None:
    """Also one of a newer server, and one whose cause is not told."""
    assert admission_words(status).startswith(words)


def test_an_order_that_stops_dispatch_is_named_with_its_author_age_and_reason() -> None:
    """A young one without an age."""
    stop = OperatorStop(state="draining", since="2026-01-01T00:00:00Z", for_s=0.4, actor="ann", reason="update")
    status = Status(known=True, admission="draining", blocks=("operator",), stopped=stop)
    assert admission_words(status) == "Draining by ann: update."


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (command_words.paused, "Paused: 1 running request will finish, 2 waiting requests wait on."),
        (command_words.drained, "Draining: 4 waiting requests refused. 1 running request will finish; the audit log"),
        (
            command_words.resumed,
            "Resumed: 3 waiting requests dispatched at once, 2 still waiting. Dispatch is still blocked ",
        ),
    ],
)
def test_an_answer_says_what_became_of_the_requests(words: Callable[[AdmissionChanged], str], expected: str) -> None:
    """In numbers."""
    answer = AdmissionChanged(state="paused", holds=["recycle"], running=1, waiting=2, dispatched=3, refused=4)
    assert words(answer).startswith(expected)


def test_an_answer_of_an_empty_server_claims_nothing() -> None:
    """A drain with nothing to wait for is over at once."""
    empty = AdmissionChanged(state="open", holds=[], running=0, waiting=0)
    assert command_words.drained(empty) == "Drained: 0 waiting requests refused, none runs."
    assert "held" not in command_words.resumed(empty)
    begun = WarmupAccepted(accepted=True, batch_size=8, running=0, waiting=0)
    assert command_words.warming(begun).startswith("Accepted: batches of at most 8 on an idle engine.")
