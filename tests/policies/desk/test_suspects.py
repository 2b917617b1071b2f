"""Requests that ran at a crash: each alone first, the most urgent first, and which one is to blame."""

from __future__ import annotations

import pytest
from desk_crashes import ALONE_S, crashes, patient, refused
from small_presets import small_preset
from watched_desk import WatchedDesk, deeds, dispatched, ids

from headway_policies import (
    Abort,
    CapReason,
    Reason,
    Requeue,
    Timeouts,
)


def test_a_ticket_that_waits_at_a_crash_waits_on_without_suspicion() -> None:
    """Waiting tickets never had the engine; they keep their places and go together once the suspects are through."""
    it = WatchedDesk(patient(2))
    for _ in range(4):
        it.comes()
    assert crashes(it, 1, 2) == [Requeue(1), Requeue(2)]
    assert it.reading.suspects == 2
    assert dispatched(it.does("engine_back")) == [1]
    assert dispatched(it.leaves(1)) == [2]
    assert dispatched(it.leaves(2)) == [3, 4]


def test_a_suspect_is_cleared_once_the_engine_has_done_all_of_it() -> None:
    """The suspect ran alone and has but to leave: others go on at once, and the next crash does not send it again."""
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
    """The batch is full, and the engine idle: it goes at once, and the desk does not ask for a tick again and again."""
    it = WatchedDesk(small_preset(2, batching={"strategy": "dynamic"}))
    for _ in range(4):
        it.comes()
    assert crashes(it, 1, 2) == [Requeue(1), Requeue(2)]
    assert dispatched(it.does("engine_back")) == [1]
    assert dispatched(it.leaves(1)) == [2]
    it.oracle.reseated(2, 0, it.now_s)
    assert dispatched(it.does("reseat", 2, 0)) == [3, 4]


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
    """The suspect passes no empty queue: under weighted order its class has had its turn when it has ended."""
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
