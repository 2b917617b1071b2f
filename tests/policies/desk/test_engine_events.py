"""Engine events: an engine that becomes unresponsive, dies, comes back or accepts fewer requests."""

from __future__ import annotations

from typing import Any

import pytest
from small_presets import small_preset, terms
from watched_desk import WatchedDesk, deeds, dispatched, ids

from headway_policies import (
    Abort,
    CapReason,
    Dispatch,
    Effect,
    EngineState,
    Expire,
    Preset,
    Reason,
    Recovery,
    Reject,
    Requeue,
    Timeouts,
    WakeAt,
)
from headway_policies.engine.warmup import Warmup

ALONE_S = 10.0


def careful(preset: Preset, ramp_s: float = 0.0) -> Preset:
    """The same preset, with 10 s alone for each suspect, and a ramp."""
    return preset.model_copy(update={"recovery": Recovery(probation_s=ALONE_S), "warmup": Warmup(ramp_s=ramp_s)})


def patient(seats: int, ramp_s: float = 0.0, **more: Any) -> Preset:
    """Three classes without any time-out, so that only the engine has an effect."""
    never: dict[str, Any] = {"queue_s": None, "total_s": None}
    classes = {"normal": terms(2, **never), "realtime": terms(3, **never), "batch": terms(1, **never)}
    return careful(small_preset(seats, classes=classes, **more), ramp_s)


def crashes(it: WatchedDesk, *retryable: int) -> list[Effect]:
    """The engine dies; these have shown nothing."""
    return deeds(it.does("engine_restarting", set(retryable)))


def refused(effects: list[Effect]) -> list[tuple[int, Reason]]:
    """The refused tickets, and the reasons."""
    return [(one.ticket_id, one.reason) for one in effects if isinstance(one, Reject | Expire | Abort)]


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
    """It stays lost, and arrivals are refused; or on its way back, and they wait."""
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
    """It waits again if it has shown nothing and did not run at the crash before as well; else it has its end."""
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


def test_a_ticket_that_waits_at_a_crash_waits_on_without_suspicion() -> None:
    """They never had the engine; they keep their places and go together once the suspects are through."""
    it = WatchedDesk(patient(2))
    for _ in range(4):
        it.comes()
    assert crashes(it, 1, 2) == [Requeue(1), Requeue(2)]
    assert it.reading.suspects == 2
    assert dispatched(it.does("engine_back")) == [1]
    assert dispatched(it.leaves(1)) == [2]
    assert dispatched(it.leaves(2)) == [3, 4]


def test_a_suspect_is_cleared_once_the_engine_has_done_all_of_it() -> None:
    """It ran alone and has only to leave: the others go on at once, and the next crash does not send it again."""
    it = WatchedDesk(patient(1))
    for _ in range(3):
        it.comes()
    assert crashes(it, 1) == [Requeue(1)]
    assert dispatched(it.does("engine_back")) == [1]
    it.oracle.reseated(1, 0, it.now_s)
    assert dispatched(it.does("reseat", 1, 0)) == [2]
    assert it.reading.suspects == 0
    assert crashes(it) == [Abort(2, Reason.ENGINE_LOST)]
    assert dispatched(it.does("engine_back")) == [3]


def test_a_batch_that_gathers_behind_a_cleared_suspect_leaves() -> None:
    """It is full, and the engine idle: it goes at once, and the desk does not ask for a tick again and again."""
    it = WatchedDesk(small_preset(2, batching={"strategy": "dynamic"}))
    for _ in range(4):
        it.comes()
    assert crashes(it, 1, 2) == [Requeue(1), Requeue(2)]
    assert dispatched(it.does("engine_back")) == [1]
    assert dispatched(it.leaves(1)) == [2]
    it.oracle.reseated(2, 0, it.now_s)
    assert dispatched(it.does("reseat", 2, 0)) == [3, 4]


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


def test_suspects_run_alone_the_most_urgent_first_and_all_others_after_them() -> None:
    """By class, then by arrival; an arrival of the most urgent class waits for the last of them, free seats or not."""
    it = WatchedDesk(patient(4))
    for name in ("normal", "batch", "realtime", "normal"):
        it.comes(name)
    assert crashes(it, 1, 2, 3, 4) == [Requeue(3), Requeue(1), Requeue(4), Requeue(2)]
    assert dispatched(it.does("engine_back")) == [3]
    assert dispatched(it.comes("realtime")) == []
    assert refused(it.comes("realtime", may_wait=False)) == [(6, Reason.NO_FREE_SEAT)]
    went = [dispatched(it.leaves(ticket_id)) for ticket_id in (3, 1, 4, 2)]
    assert went == [[1], [4], [2], [5]]


def test_an_arrival_at_an_empty_queue_is_not_dispatched_beside_a_suspect() -> None:
    """The one alone is alone, until it is cleared."""
    it = WatchedDesk(patient(4))
    it.comes()
    crashes(it, 1)
    it.does("engine_back")
    assert dispatched(it.comes()) == []
    assert dispatched(it.passes(ALONE_S - 0.001)) == []
    assert dispatched(it.passes(0.001)) == [2]


def test_a_suspect_is_cleared_at_the_instant_and_keeps_running() -> None:
    """After so long alone the next one is dispatched beside it, and all others after the last one; the desk asks to be
    woken."""
    it = WatchedDesk(patient(4))
    for _ in range(2):
        it.comes()
    crashes(it, 1, 2)
    it.does("engine_back")
    it.comes()
    went = [dispatched(it.passes(step_s)) for step_s in (9.999, 0.001, 9.999, 0.001)]
    assert went == [[], [2], [], [3]]
    assert (it.counts(), it.reading.suspects) == ((3, 0, 3, {}), 0)


def test_a_suspect_is_cleared_while_the_engine_is_silent_and_the_next_one_waits_for_a_sign_of_life() -> None:
    """Its time goes on; no request is dispatched to an unresponsive engine."""
    it = WatchedDesk(patient(2))
    for _ in range(2):
        it.comes()
    crashes(it, 1, 2)
    it.does("engine_back")
    it.does("engine_silent")
    assert dispatched(it.passes(2 * ALONE_S)) == []
    assert it.reading.suspects == 1
    assert dispatched(it.does("engine_back")) == [2]


@pytest.mark.parametrize("how", ["leaves", "expires"])
def test_a_suspect_that_ends_while_it_waits_delays_no_other(how: str) -> None:
    """The turn goes to the next one."""
    it = WatchedDesk(patient(2))
    it.comes(asked=Timeouts(total_s=5.0))
    it.comes()
    crashes(it, 1, 2)
    it.comes()
    if how == "leaves":
        it.leaves(1)
    else:
        assert refused(it.passes(5.0)) == [(1, Reason.QUEUE_TIMEOUT)]
    assert dispatched(it.does("engine_back")) == [2]
    assert dispatched(it.leaves(2)) == [3]


def test_a_crash_of_the_one_alone_gives_up_that_one_only() -> None:
    """The others were not running: they wait on for their turns."""
    it = WatchedDesk(patient(3))
    for _ in range(3):
        it.comes()
    crashes(it, 1, 2, 3)
    it.does("engine_back")
    assert crashes(it, 1, 2, 3) == [Abort(1, Reason.POISON)]
    assert it.reading.suspects == 2
    assert dispatched(it.does("engine_back")) == [2]


def test_a_crash_of_another_request_in_between_is_no_proof() -> None:
    """A ticket that waited while others were running starts with a clean record."""
    it = WatchedDesk(patient(1))
    for _ in range(3):
        it.comes()
    crashes(it, 1)
    it.does("engine_back")
    it.passes(ALONE_S)
    it.leaves(1)
    assert crashes(it, 2) == [Requeue(2)]


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
    """It had its turn in the queue, and no token yet; what is left counts from its arrival."""
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
    """It counts from the arrival, as if there had been no crash; tickets that waited beside it expire on time."""
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


# ---------------------------------------------------------------------- lost, and back


@pytest.mark.parametrize("why", [Reason.ENGINE_LOST, Reason.DRAINING, Reason.OUT_OF_MEMORY])
def test_when_no_other_engine_comes_the_suspects_end_as_well(why: Reason) -> None:
    """All waiting tickets are refused with the reason, and so are arrivals; none stays suspect."""
    it = WatchedDesk(patient(2))
    for _ in range(3):
        it.comes()
    crashes(it, 1, 2)
    it.oracle.engine_lost()
    effects = it.desk.engine_lost(it.now_s, why)
    it.oracle.follow(effects, it.now_s)
    assert sorted(refused(effects)) == [(1, why), (2, why), (3, why)]
    assert refused(it.comes()) == [(4, why)]
    assert it.reading.suspects == 0
    it.does("engine_back")
    assert dispatched(it.comes()) == [5]


def test_an_engine_that_is_lost_with_a_suspect_in_it_leaves_no_ticket_waiting_for_it() -> None:
    """The one alone is given up, and after a return the first one goes at once."""
    it = WatchedDesk(patient(2))
    it.comes()
    crashes(it, 1)
    it.does("engine_back")
    assert refused(it.does("engine_lost")) == [(1, Reason.ENGINE_LOST)]
    it.does("engine_back")
    assert dispatched(it.comes()) == [2]


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


def test_a_suspect_goes_beside_a_cleared_one_only_within_the_limit() -> None:
    """With one seat open the next suspect waits for its end, however long ago that one was cleared."""
    it = WatchedDesk(patient(4))
    for _ in range(4):
        it.comes()
    it.does("engine_restarting", {1, 2, 3, 4})
    it.does("cap_seats", CapReason.RECOVERY, 0.5)
    assert ids(it.does("engine_back")) == [1]
    assert ids(it.passes(ALONE_S)) == [2]
    assert ids(it.passes(ALONE_S)) == []
    assert it.desk.seats_taken == it.desk.limit == 2
    assert ids(it.leaves(1)) == [3]


def test_a_cleared_ticket_is_not_blamed_for_the_one_that_runs_alone() -> None:
    """The engine dies while the second suspect runs beside the first: the second is to blame, the first goes again."""
    it = WatchedDesk(patient(4))
    it.comes()
    it.comes()
    it.does("engine_restarting", {1, 2})
    it.does("engine_back")
    it.passes(ALONE_S)
    assert deeds(it.does("engine_restarting", {1, 2})) == [Requeue(1), Abort(2, Reason.POISON)]


def test_a_suspect_that_goes_alone_pays_for_its_class() -> None:
    """It passes no empty queue: under weighted order the class it belongs to has had its turn when it has ended."""
    it = WatchedDesk(patient(1, between="weighted"))
    it.comes("realtime", max_tokens=512)
    crashes(it, 1)
    for name in ("realtime", "batch"):
        it.comes(name, max_tokens=512)
    assert dispatched(it.does("engine_back")) == [1]
    order = it.desk._scheduler.queue.lanes[0].order
    assert order._credits["realtime"] < 0 < order._credits["batch"]  # type: ignore[attr-defined]  # weighted
    it.token(1)
    assert dispatched(it.leaves(1)) == [3]
