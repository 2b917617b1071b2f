"""Time-outs of queue, first token, stall and total: which one ends a ticket, and at which instant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from small_presets import small_preset, terms
from watched_desk import WatchedDesk, deeds, ids

from headway_policies import Abort, Effect, Ending, Expire, Load, Preset, Reason, Timeouts, WakeAt


def test_a_ticket_that_ran_too_long_is_stopped_and_keeps_its_seat_until_the_engine_releases_it() -> None:
    """The total time-out settles the ticket at once; its seat is handed on only when the engine is done with it."""
    it = WatchedDesk(small_preset())
    it.comes()
    it.passes(55.0)
    it.comes()
    assert deeds(it.passes(5.0)) == [Abort(1, Reason.TOTAL_TIMEOUT)]
    assert it.counts() == (2, 1, 0, {"expired_running": 1})
    assert it.desk.seats_taken == 1
    assert ids(it.leaves(1)) == [2]
    assert it.counts() == (2, 0, 1, {"expired_running": 1})


def test_the_wait_of_the_first_is_never_prolonged_by_later_arrivals() -> None:
    """A deadline runs from the ticket's own arrival: no other arrival restarts it."""
    it = WatchedDesk(small_preset())
    it.comes()
    it.comes()
    for _ in range(9):
        it.passes(1.0)
        it.comes()
    assert ids(it.passes(1.0)) == [2]


LATE: dict[str, Callable[[WatchedDesk], list[Effect]]] = {
    "a refused arrival": lambda it: it.comes("batch"),
    "a stranger leaving": lambda it: it.does("leave", 99, Ending.COMPLETED),
    "a stranger's seats": lambda it: it.does("reseat", 99, 0),
    "a token": lambda it: it.does("first_token", 1),
    "an engine step": lambda it: it.does("observe", Load(1, 0, 0.0)),
}


@pytest.mark.parametrize("event", LATE.values(), ids=LATE)
def test_when_the_head_expires_those_behind_it_go_in_that_event(
    event: Callable[[WatchedDesk], list[Effect]],
) -> None:
    """A wide ticket at the head runs out of time just before some other event: the narrow one behind it goes now."""
    it = WatchedDesk(small_preset(2, classes={"normal": terms(2), "batch": terms(1, places=0)}))
    it.comes()
    it.comes(seats=2, asked=Timeouts(total_s=5.0))
    it.comes()
    it.now_s = 5.0
    assert ids(event(it))[:2] == [2, 3]
    assert it.oracle.running == {1, 3}


def test_no_timer_is_set_without_a_deadline() -> None:
    """The desk asks for a tick when there is something to wait for, once for each earlier deadline; it never polls."""
    it = WatchedDesk(small_preset(seats=1))
    assert it.does("tick") == []
    assert it.comes()[-1] == WakeAt(60.0)
    assert it.comes()[-1] == WakeAt(10.0)
    assert it.comes() == []
    assert it.does("observe", Load(1, 0, 0.0)) == []


ALL = {"queue_timeout_s": 4.0, "first_token_timeout_s": 6.0, "stall_timeout_s": 2.0, "total_timeout_s": 20.0}


def stages(**asked_s: float) -> dict[str, Any]:
    return {"asked": Timeouts(**asked_s)}


def with_time_outs(**time_outs: float) -> Preset:
    usual: dict[str, Any] = {"queue_s": None, "total_s": None}
    own: dict[str, Any] = dict(time_outs)
    if "queue_timeout_s" in own:
        usual["queue_s"] = own.pop("queue_timeout_s")
    if "total_timeout_s" in own:
        usual["total_s"] = own.pop("total_timeout_s")
    return small_preset(1, classes={"normal": terms(1, **usual, **own)})


#: What a waiting ticket is promised, and when it gives up: the earliest of three stages, the class's or its own.
WAITING: dict[str, tuple[dict[str, float], dict[str, float], float]] = {
    "queue": ({"queue_timeout_s": 4}, {}, 4.0),
    "first token": ({"first_token_timeout_s": 6}, {}, 6.0),
    "total": ({"total_timeout_s": 20}, {}, 20.0),
    "the earliest of all": (ALL, {}, 4.0),
    "its own queue time": (ALL, {"queue_s": 1.5}, 1.5),
    "its own first-token time": (ALL, {"first_token_s": 3}, 3.0),
    "its own total": (ALL, {"total_s": 2}, 2.0),
    "its own where the class has none": ({}, {"queue_s": 7}, 7.0),
    "its own total where the class has none": ({}, {"total_s": 8}, 8.0),
    "a longer wish changes nothing": (ALL, {"queue_s": 99, "first_token_s": 99, "total_s": 99}, 4.0),
}


@pytest.mark.parametrize(("own", "asked", "gives_up_s"), WAITING.values(), ids=WAITING)
def test_a_wait_ends_at_the_earliest_of_its_stages(
    own: dict[str, float], asked: dict[str, float], gives_up_s: float
) -> None:
    """The class and the client each set stages; the earliest that still can be missed ends the wait, on the dot."""
    it = WatchedDesk(with_time_outs(**own))
    it.comes(asked=Timeouts(total_s=50.0))
    it.comes(**stages(**asked))
    assert 2 not in ids(it.passes(gives_up_s - 0.001))
    assert [type(one) for one in it.passes(0.001) if ids([one]) == [2]] == [Expire]


#: What ends a running ticket: (class, own, when tokens come, reason, when).
RUNNING: dict[str, tuple[dict[str, float], dict[str, float], tuple[float, ...], Reason, float]] = {
    "no first token": (ALL, {}, (), Reason.FIRST_TOKEN_TIMEOUT, 6.0),
    "no first token, its own": (ALL, {"first_token_s": 3}, (), Reason.FIRST_TOKEN_TIMEOUT, 3.0),
    "no first token, its own where the class has none": ({}, {"first_token_s": 5}, (), Reason.FIRST_TOKEN_TIMEOUT, 5.0),
    "silence after the first token": (ALL, {}, (5.0,), Reason.STALL_TIMEOUT, 7.0),
    "silence after the last token": (ALL, {}, (1.0, 2.5, 4.0), Reason.STALL_TIMEOUT, 6.0),
    "silence, its own": (ALL, {"stall_s": 0.5}, (1.0, 1.4), Reason.STALL_TIMEOUT, 1.9),
    "silence, its own where the class has none": ({}, {"stall_s": 3}, (1.0,), Reason.STALL_TIMEOUT, 4.0),
    "total": (ALL, {}, tuple(float(second) for second in range(1, 20)), Reason.TOTAL_TIMEOUT, 20.0),
    "total, its own": (ALL, {"total_s": 3}, (1.0, 2.0), Reason.TOTAL_TIMEOUT, 3.0),
    "total, before a stall that is longer": ({}, {"total_s": 4, "stall_s": 9}, (1.0,), Reason.TOTAL_TIMEOUT, 4.0),
    "total, its own where the class has none": ({}, {"total_s": 9}, (), Reason.TOTAL_TIMEOUT, 9.0),
}


@pytest.mark.parametrize(("own", "asked", "tokens_s", "reason", "stops_s"), RUNNING.values(), ids=RUNNING)
def test_a_run_ends_at_the_first_stage_it_misses(
    own: dict[str, float], asked: dict[str, float], tokens_s: tuple[float, ...], reason: Reason, stops_s: float
) -> None:
    """First token, stall and total each end a run at their very instant, and tokens put off only the stall."""
    it = WatchedDesk(with_time_outs(**own))
    it.comes(**stages(**asked))
    for number, token_s in enumerate(tokens_s):
        assert deeds(it.passes(token_s - it.now_s)) == []
        it.token(1, "token_batch" if number else "first_token")
    assert deeds(it.passes(stops_s - 0.001 - it.now_s)) == []
    assert deeds(it.passes(stops_s - it.now_s)) == [Abort(1, reason)]
    assert it.counts() == (1, 0, 0, {"expired_running": 1})


def test_without_time_outs_no_ticket_is_ever_expired() -> None:
    """No stage, no deadline, no wake-up: a day later both are still there."""
    it = WatchedDesk(with_time_outs())
    it.comes()
    it.comes()
    it.token(1)
    assert it.passes(86_400.0) == []
    assert it.counts() == (2, 1, 1, {})


def test_the_engine_owes_no_token_while_it_holds_no_seat() -> None:
    """Between two calls of one request nothing stalls; with the next call the stall time starts anew."""
    it = WatchedDesk(with_time_outs(stall_timeout_s=2.0))
    it.comes()
    it.token(1)
    it.holds(1, 0)
    assert deeds(it.passes(30.0)) == []
    it.holds(1, 1)
    assert deeds(it.passes(1.999)) == []
    assert deeds(it.passes(0.001)) == [Abort(1, Reason.STALL_TIMEOUT)]


def test_a_settled_ticket_is_given_up_once() -> None:
    """After its time-out no later stage ends it again, though its seat is still held."""
    it = WatchedDesk(with_time_outs(**ALL))
    it.comes()
    assert deeds(it.passes(6.0)) == [Abort(1, Reason.FIRST_TOKEN_TIMEOUT)]
    assert deeds(it.passes(60.0)) == []
    assert deeds(it.leaves(1)) == []
    assert it.counts() == (1, 0, 0, {"expired_running": 1})


def test_a_preset_that_follows_does_not_change_what_was_promised() -> None:
    """Time-outs are those of the arrival, for waiting and for running tickets."""
    it = WatchedDesk(with_time_outs(queue_timeout_s=4.0, total_timeout_s=9.0))
    it.comes()
    it.comes()
    it.does("switch", with_time_outs(queue_timeout_s=1.0, total_timeout_s=1.0))
    assert ids(it.passes(3.75)) == []
    assert ids(it.passes(0.25)) == [2]
    assert ids(it.passes(4.75)) == []
    assert ids(it.passes(0.25)) == [1]
