"""The desk when its engine is silent, dies, restarts and opens its seats again."""

from __future__ import annotations

from typing import Any

import pytest
from desk_crashes import careful, crashes, patient, refused
from small_presets import small_preset, terms
from watched_desk import WatchedDesk, deeds, dispatched, ids

from headway_policies import (
    Abort,
    CapReason,
    Dispatch,
    Effect,
    EngineState,
    Reason,
    Requeue,
    Timeouts,
    WakeAt,
)

# ---------------------------------------------------------------------- silent


def test_a_silent_engine_gets_no_request_until_it_responds() -> None:
    """New requests wait, a seat that is freed stays free, running ones may end; then all are dispatched at once, with
    no ramp."""
    it = WatchedDesk(patient(2, ramp_s=100.0))
    it.comes()
    assert deeds(it.does("engine_silent")) == []
    assert (it.desk.mode.engine, it.desk.mode.engine_up) == (EngineState.SILENT, False)
    assert deeds(it.comes()) == []
    assert deeds(it.leaves(1)) == []
    assert deeds(it.comes()) == []
    assert deeds(it.passes(50.0)) == []
    assert dispatched(it.does("engine_back")) == [2, 3]
    assert it.counts()[3] == {"completed": 1}


def test_time_goes_on_while_the_engine_is_silent() -> None:
    """Waiting requests expire and running ones are aborted, at their own times."""
    it = WatchedDesk(small_preset())
    it.comes()
    it.comes()
    it.does("engine_silent")
    assert refused(it.passes(60.0)) == [(2, Reason.QUEUE_TIMEOUT), (1, Reason.TOTAL_TIMEOUT)]


@pytest.mark.parametrize(
    ("event", "state", "answer"),
    [("engine_lost", EngineState.LOST, [(1, Reason.ENGINE_LOST)]), ("engine_restarting", EngineState.RESTARTING, [])],
    ids=["lost", "restarting"],
)
def test_silence_of_an_engine_that_is_gone_changes_nothing(
    event: str, state: EngineState, answer: list[tuple[int, Reason]]
) -> None:
    """The engine stays lost, and arrivals are refused; or on its way back, and they wait."""
    it = WatchedDesk(patient(1))
    it.does(event, *([set()] if event == "engine_restarting" else []))
    it.does("engine_silent")
    assert it.desk.mode.engine is state
    assert refused(it.comes()) == answer


# ---------------------------------------------------------------------- restarting


@pytest.mark.parametrize(
    ("shown", "before", "answer"),
    [
        (False, "never", Requeue(1)),
        (False, "at the last crash", Abort(1, Reason.POISON)),
        (False, "at the crash before the last", Requeue(1)),
        (True, "never", Abort(1, Reason.ENGINE_LOST)),
        (True, "at the last crash", Abort(1, Reason.ENGINE_LOST)),
    ],
)
def test_what_becomes_of_a_running_request_when_the_engine_dies(shown: bool, before: str, answer: Effect) -> None:
    """The request waits again if it has shown nothing and did not run at the crash before; else it has its end."""
    it = WatchedDesk(patient(1))
    it.comes()
    if before != "never":
        crashes(it, 1)
        if before == "at the crash before the last":
            assert crashes(it) == []  # the engine died again while it started
        assert deeds(it.does("engine_back")) == [Dispatch(1, revision=1)]
    assert crashes(it, *([] if shown else [1])) == [answer]
    recalled = isinstance(answer, Requeue)
    assert it.counts() == (1, int(recalled), 0, {} if recalled else {"engine_lost": 1})
    assert it.desk.ledger.classes["normal"].retries == int(recalled) + int(before != "never")
    assert (it.reading.suspects, it.desk.seats_taken) == (int(recalled), 0)


def test_a_ticket_that_is_settled_already_is_gone_with_the_engine() -> None:
    """No second outcome, no replay, and its seat is free."""
    it = WatchedDesk(small_preset())
    it.comes()
    it.passes(60.0)
    assert it.desk.seats_taken == 1
    assert crashes(it, 1) == []
    assert (it.desk.seats_taken, it.reading.suspects) == (0, 0)
    assert it.counts() == (1, 0, 0, {"expired_running": 1})


@pytest.mark.parametrize("event", ["engine_restarting", "engine_lost"])
def test_a_ticket_whose_sequences_have_all_ended_loses_nothing_with_the_engine(event: str) -> None:
    """Its response is still being sent: it is neither queued again nor given up, and leaves as completed."""
    it = WatchedDesk(patient(2))
    it.comes()
    it.token(1)
    it.holds(1, 0)
    assert deeds(it.does(event, *([{1}] if event == "engine_restarting" else []))) == []
    assert (it.reading.suspects, it.counts()) == (0, (1, 0, 1, {}))
    assert deeds(it.leaves(1)) == []
    assert it.counts() == (1, 0, 0, {"completed": 1})


def test_a_restarting_engine_gets_no_request_and_arrivals_wait() -> None:
    """No request is refused because of it, and none is dispatched before it is back."""
    it = WatchedDesk(patient(1))
    crashes(it)
    assert deeds(it.comes()) == []
    assert deeds(it.passes(100.0)) == []
    assert deeds(it.does("engine_back")) == [Dispatch(1, revision=1)]


TIMES: dict[str, tuple[dict[str, Any], float | None]] = {
    "its turn in the queue is over": ({"queue_s": 5.0, "total_s": None}, None),
    "the whole": ({"queue_s": 5.0, "total_s": 20.0}, 20.0),
    "the first token": ({"queue_s": 5.0, "total_s": 20.0, "first_token_timeout_s": 8.0}, 8.0),
    "no stall without an engine": ({"queue_s": None, "total_s": 20.0, "stall_timeout_s": 1.0}, 20.0),
    "no stall, and nothing else either": ({"queue_s": None, "total_s": None, "stall_timeout_s": 1.0}, None),
    "none at all": ({"queue_s": None, "total_s": None}, None),
}


@pytest.mark.parametrize(("times", "expires_s"), TIMES.values(), ids=TIMES)
def test_a_recalled_request_keeps_the_deadlines_of_a_running_one(
    times: dict[str, Any], expires_s: float | None
) -> None:
    """The request had its turn in the queue, and no token yet; what is left counts from its arrival."""
    it = WatchedDesk(small_preset(classes={"normal": terms(1, **times)}))
    it.comes()
    it.now_s = 2.5
    it.token(1)
    it.now_s = 3.0
    assert crashes(it, 1) == [Requeue(1)]
    if expires_s is None:
        assert deeds(it.passes(1000.0)) == []
        assert dispatched(it.does("engine_back")) == [1]
    else:
        assert deeds(it.passes(expires_s - 3.001)) == []
        assert refused(it.passes(0.001)) == [(1, Reason.QUEUE_TIMEOUT)]


def test_the_total_time_out_goes_on_while_a_recalled_request_runs_again() -> None:
    """Time counts from the arrival, as if there had been no crash; tickets that waited beside it expire on time."""
    it = WatchedDesk(careful(small_preset()))
    it.comes()
    it.comes(asked=Timeouts(queue_s=2.0))
    crashes(it, 1)
    assert refused(it.passes(3.0)) == [(2, Reason.QUEUE_TIMEOUT)]
    assert deeds(it.passes(30.0)) == []
    it.does("engine_back")
    assert refused(it.passes(30.0)) == [(1, Reason.TOTAL_TIMEOUT)]


def test_a_recalled_request_owes_no_stall_before_its_new_first_token() -> None:
    """A token of the engine that died does not count for the new one."""
    stalling = terms(1, queue_s=None, total_s=None, stall_timeout_s=1.0)
    it = WatchedDesk(small_preset(classes={"normal": stalling}))
    it.comes()
    it.token(1)
    crashes(it, 1)
    it.does("engine_back")
    assert deeds(it.passes(5.0)) == []
    it.token(1)
    assert refused(it.passes(1.0)) == [(1, Reason.STALL_TIMEOUT)]


def test_a_tenant_does_not_pay_for_what_a_crash_has_taken() -> None:
    """A request that runs twice is charged once: the tenant that has really used less is served next."""
    it = WatchedDesk(patient(1, inside="fair"))
    it.comes(tenant="c")
    for tenant, prompt_tokens in (("b", 1500), ("a", 1000), ("b", 1), ("a", 1)):
        it.comes(tenant=tenant, prompt_tokens=prompt_tokens, max_tokens=1)
    assert [dispatched(it.leaves(ticket_id)) for ticket_id in (1, 2)] == [[2], [3]]
    crashes(it, 3)
    it.does("engine_back")
    assert dispatched(it.leaves(3)) == [5]


def test_the_shares_are_as_if_there_had_been_no_crash() -> None:
    """Between the classes and inside them, the same ones go in the same order."""

    def order(*, crash: bool) -> list[int]:
        it = WatchedDesk(patient(1, between="weighted", inside="fair"))
        it.comes(tenant="a", prompt_tokens=4000)
        if crash:
            crashes(it, 1)
            it.does("engine_back")
        for tenant in "aabb":
            it.comes(tenant=tenant, prompt_tokens=4000)
        went = [1]
        while len(went) < 5:
            went += dispatched(it.leaves(went[-1]))
        return went

    assert order(crash=True) == order(crash=False)


# ---------------------------------------------------------------------- how many


def test_the_least_share_that_anybody_asks_for_is_open() -> None:
    """Fewer seats end no request; more are filled in the same event; one is always open."""
    it = WatchedDesk(patient(4))
    for _ in range(6):
        it.comes()
    assert deeds(it.does("cap_seats", CapReason.MEMORY, 0.5)) == []
    assert (it.desk.limit, it.desk.seats_taken) == (2, 4)
    assert [dispatched(it.leaves(ticket_id)) for ticket_id in (1, 2, 3)] == [[], [], [5]]
    assert dispatched(it.does("cap_seats", CapReason.RECOVERY, 0.01)) == []
    assert dispatched(it.does("cap_seats", CapReason.MEMORY, 1.0)) == []
    assert it.desk.limit == 1
    assert dispatched(it.does("cap_seats", CapReason.RECOVERY, 1.0)) == [6]
    assert it.desk.limit == 4


def test_a_share_is_of_what_the_engine_can_give() -> None:
    """Half of a ceiling of four, and half of the next preset's seats."""
    it = WatchedDesk(patient(64), ceiling=4)
    it.does("cap_seats", CapReason.MEMORY, 0.5)
    assert it.desk.limit == 2
    it.does("switch", patient(2))
    assert it.desk.limit == 1


@pytest.mark.parametrize("how", ["warmed_up", "restarted", "lost and back"])
def test_seats_open_one_after_another_after_a_warm_up(how: str) -> None:
    """One at once, the second at half the ramp, all four at its end."""
    it = WatchedDesk(patient(4, ramp_s=10.0))
    if how == "restarted":
        crashes(it)
    elif how == "lost and back":
        it.does("engine_lost")
    it.does("warmed_up" if how == "warmed_up" else "engine_back")
    for _ in range(5):
        it.comes()
    assert (it.desk.limit, it.counts()[1:3]) == (1, (4, 1))
    went = [ids(deeds(it.passes(step_s))) for step_s in (4.5, 0.5, 4.5, 0.5, 1000.0)]
    assert went == [[], [2], [3], [4], []]


def test_a_ramp_asks_to_be_woken_for_each_seat() -> None:
    """At the very instant at which the next one opens, and not again once all are open."""
    it = WatchedDesk(patient(4, ramp_s=10.0))
    woken_s, effects = [], it.does("warmed_up")
    for seats in (2, 3, 4):
        [wake] = effects
        assert isinstance(wake, WakeAt)
        it.now_s = wake.at_s
        effects = it.does("tick")
        woken_s.append(wake.at_s)
        assert it.desk.limit == seats
    assert woken_s == pytest.approx([5.0, 7.925, 10.0], abs=0.001)
    assert effects == []
