"""Each event of the desk: its exact effects, and what stands in the ledger afterwards."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
from desk_oracle import Oracle
from small_presets import small_preset, terms

from headway_policies import (
    Abort,
    Decision,
    Desk,
    Dispatch,
    Effect,
    Ending,
    Expire,
    Load,
    Outcome,
    Phase,
    Preset,
    Reason,
    Reject,
    State,
    Ticket,
    Timeouts,
    WakeAt,
    bundled_presets,
)
from headway_policies.describe import dump

SOON_S = 1  # Retry-After while nothing has left the line yet, or the line is empty


class Counter:
    """A desk with a clock of its own and tickets numbered as they come; its oracle follows every event."""

    def __init__(self, preset: Preset, ceiling: int | None = None) -> None:
        self.desk = Desk(preset, ceiling=ceiling)
        self.oracle = Oracle(self.desk)
        self.now_s = 0.0
        self.arrived = 0

    def comes(self, name: str = "normal", *, seats: int = 1, total_s: float | None = None) -> list[Effect]:
        self.arrived += 1
        ticket = Ticket(self.arrived, name, self.now_s, seats=seats, asked=Timeouts(total_s=total_s))
        self.oracle.arrived(ticket)
        return self.does("arrive", ticket)

    def leaves(self, ticket_id: int, ending: Ending = Ending.COMPLETED) -> list[Effect]:
        self.oracle.left(ticket_id, ending)
        return self.does("leave", ticket_id, ending)

    def does(self, event: str, *arguments: object) -> list[Effect]:
        if event == "tick":
            self.oracle.wake_s = None
        effects: list[Effect] = getattr(self.desk, event)(*arguments, self.now_s)
        self.oracle.follow(effects, self.now_s)
        return unbatched(effects)

    def passes(self, for_s: float) -> list[Effect]:
        """Let time pass, and tick at its end."""
        self.now_s += for_s
        return self.does("tick")

    def counts(self, name: str = "normal") -> tuple[int, int, int, dict[str, int]]:
        """Arrived, queued, in flight, outcomes."""
        one = self.desk.ledger.classes[name]
        return one.arrived, one.queued, one.in_flight, {str(key): number for key, number in one.outcomes.items()}


def deeds(effects: list[Effect]) -> list[Effect]:
    """The effects without the wish to be woken, and without the number of the batch."""
    return [effect for effect in unbatched(effects) if not isinstance(effect, WakeAt)]


def unbatched(effects: list[Effect]) -> list[Effect]:
    return [Dispatch(one.ticket_id, one.revision) if isinstance(one, Dispatch) else one for one in effects]


def ids(effects: list[Effect]) -> list[int]:
    return [effect.ticket_id for effect in deeds(effects) if not isinstance(effect, WakeAt)]


# ---------------------------------------------------------------------- arriving


def test_who_finds_a_free_seat_is_dispatched_at_once() -> None:
    """A seat is free: dispatched in the very event, and the total time-out is armed."""
    counter = Counter(small_preset())
    assert counter.comes() == [Dispatch(1, revision=1), WakeAt(60.0)]
    assert counter.counts() == (1, 0, 1, {})
    assert counter.desk.ledger.classes["normal"].decisions == {Decision.SEATED: 1}


def test_who_finds_none_waits_until_one_is_free() -> None:
    """Without a seat: no effect but the wake-up for the queue time-out; then the seat is handed on."""
    counter = Counter(small_preset())
    counter.comes()
    assert counter.comes() == [WakeAt(10.0)]
    assert counter.counts() == (2, 1, 1, {})
    assert counter.desk.ledger.classes["normal"].decisions == {Decision.SEATED: 1, Decision.QUEUED: 1}
    assert deeds(counter.leaves(1)) == [Dispatch(2, revision=1)]
    assert counter.counts() == (2, 0, 1, {"completed": 1})


FULL = {
    "over all": (small_preset(most_waiting=1), "realtime", Reason.QUEUE_FULL),
    "in its class": (
        small_preset(classes={"normal": terms(2, places=1), "batch": terms(1)}),
        "normal",
        Reason.CLASS_QUEUE_FULL,
    ),
}


@pytest.mark.parametrize(("preset", "name", "reason"), FULL.values(), ids=FULL)
def test_a_full_queue_refuses_at_once(preset: Preset, name: str, reason: Reason) -> None:
    """No place to wait: refused in the very event, with the bound that was met."""
    counter = Counter(preset)
    counter.comes()
    counter.comes()
    [refused] = deeds(counter.comes(name))
    assert isinstance(refused, Reject)
    assert (refused.ticket_id, refused.reason) == (3, reason)
    ledger = counter.desk.ledger.classes[name]
    assert ledger.outcomes == {Outcome.REJECTED_FULL: 1}
    assert ledger.refusals == {reason: 1}
    assert ledger.decisions[Decision.REJECTED] == 1
    counter.oracle.check(counter.now_s)


def test_a_queue_without_places_still_seats_whoever_need_not_wait() -> None:
    """max_waiting = 0 means nobody waits, not that nobody is served."""
    counter = Counter(small_preset(most_waiting=0))
    assert deeds(counter.comes()) == [Dispatch(1, revision=1)]
    assert [type(one) for one in deeds(counter.comes())] == [Reject]


@pytest.mark.parametrize("total_s", [0.0, -1.0])
def test_who_comes_after_its_own_deadline_is_refused(total_s: float) -> None:
    """A deadline that has passed is never dispatched, even where a seat is free."""
    counter = Counter(small_preset())
    counter.passes(5.0)
    assert counter.comes(total_s=total_s) == [Reject(1, Reason.QUEUE_TIMEOUT, SOON_S)]
    assert counter.counts() == (1, 0, 0, {"expired_queued": 1})


def test_who_was_on_the_way_for_too_long_is_refused() -> None:
    """The class's queue time counts from the arrival the ticket names, not from the event."""
    desk = Desk(small_preset())
    assert desk.arrive(Ticket(1, "normal", arrived_s=0.0), 10.0) == [Reject(1, Reason.QUEUE_TIMEOUT, SOON_S)]
    assert desk.arrive(Ticket(2, "normal", arrived_s=0.1), 10.0)[0] == Dispatch(2, revision=1)


@pytest.mark.parametrize(("name", "ticket_id"), [("gold", 2), ("normal", 1)], ids=["unknown class", "doubled id"])
def test_a_ticket_that_cannot_be_is_refused_by_an_error_that_changes_nothing(name: str, ticket_id: int) -> None:
    """A wrong class or an id that is here already raises, and the ledger stays as it was."""
    counter = Counter(small_preset())
    counter.comes()
    with pytest.raises(ValueError, match=f"ticket {ticket_id}"):
        counter.desk.arrive(Ticket(ticket_id, name, 0.0), 0.0)
    assert counter.counts() == (1, 0, 1, {})


def test_a_ticket_takes_at_least_one_seat() -> None:
    """A request of no sequences is a mistake of the caller."""
    with pytest.raises(ValueError, match="at least 1"):
        Ticket(1, "normal", 0.0, seats=0)


# ---------------------------------------------------------------------- order


def test_the_most_urgent_goes_first_and_the_lowest_last() -> None:
    """Whatever the order of arrival, a freed seat goes to the most urgent class, first come first served inside it."""
    counter = Counter(small_preset())
    for name in ("normal", "batch", "normal", "realtime", "batch", "realtime"):
        counter.comes(name)
    served = []
    for leaving in (1, 4, 6, 3, 2):
        served += ids(counter.leaves(leaving))
    assert served == [4, 6, 3, 2, 5]


def test_running_batch_work_never_bars_a_seat_that_is_free() -> None:
    """No priority inversion: batch work in every other seat, and batch work waiting, hold no realtime request up."""
    counter = Counter(small_preset(seats=2))
    for _ in range(4):
        counter.comes("batch")
    assert deeds(counter.comes("realtime")) == []
    assert ids(counter.leaves(1)) == [5]


def test_a_flood_of_batch_work_takes_no_realtime_place() -> None:
    """With the bundled presets a full batch queue refuses batch work, while realtime work still gets in."""
    desk = Desk(bundled_presets()["latency"])
    for number in range(5_100):
        desk.arrive(Ticket(number, "batch", 0.0), 0.0)
    assert desk.ledger.classes["batch"].outcomes[Outcome.REJECTED_FULL] == 5_100 - 5_000 - 8
    assert not any(isinstance(one, Reject) for one in desk.arrive(Ticket(9_000, "realtime", 0.0), 0.0))
    assert Dispatch(9_000, revision=1) in desk.leave(0, Ending.COMPLETED, 1.0)


def test_who_needs_several_seats_waits_for_all_of_them() -> None:
    """A wide ticket at the head is not overtaken by narrow ones of its class, and starts with all its seats free."""
    counter = Counter(small_preset(seats=4))
    counter.comes(seats=2)
    counter.comes(seats=3)
    counter.comes(seats=1)
    assert counter.counts()[1] == 2
    assert ids(counter.leaves(1)) == [2, 3]
    assert counter.desk.seats_taken == 4


def test_who_needs_more_seats_than_there_are_gets_all_of_them() -> None:
    """A ticket wider than the limit is served alone rather than never."""
    counter = Counter(small_preset(seats=4))
    assert ids(counter.comes(seats=99)) == [1]
    assert counter.desk.seats_taken == 4
    assert ids(counter.comes()) == []


# ---------------------------------------------------------------------- leaving

LEAVING = {
    ("running", Ending.COMPLETED): Outcome.COMPLETED,
    ("running", Ending.FAILED): Outcome.FAILED,
    ("running", Ending.CANCELLED): Outcome.CANCELLED_RUNNING,
    ("running", Ending.INVALID): Outcome.REJECTED_INVALID,
    ("waiting", Ending.COMPLETED): Outcome.FAILED,
    ("waiting", Ending.FAILED): Outcome.FAILED,
    ("waiting", Ending.CANCELLED): Outcome.CANCELLED_QUEUED,
    ("waiting", Ending.INVALID): Outcome.REJECTED_INVALID,
}


@pytest.mark.parametrize(
    ("phase", "ending", "outcome"),
    [(*key, value) for key, value in LEAVING.items()],
    ids=[f"{phase}-{ending}" for phase, ending in LEAVING],
)
def test_leaving_writes_the_one_outcome_of_its_phase(phase: str, ending: Ending, outcome: Outcome) -> None:
    """What is counted follows from where the ticket stood and what it reports; a second leave changes nothing."""
    counter = Counter(small_preset())
    counter.comes("batch")
    counter.comes("normal" if phase == "waiting" else "batch")
    who, name = (2, "normal") if phase == "waiting" else (1, "batch")
    counter.leaves(who, ending)
    assert counter.counts(name)[3] == {outcome.value: 1}
    assert counter.desk.leave(who, Ending.FAILED, counter.now_s) == []
    assert counter.counts(name)[3] == {outcome.value: 1}


def test_every_ending_is_in_the_table_above() -> None:
    """A new ending wants a row."""
    assert {ending for _, ending in LEAVING} == set(Ending)


def test_a_start_that_failed_frees_the_seat() -> None:
    """The engine did not take it: failed, and the next goes."""
    counter = Counter(small_preset())
    counter.comes()
    counter.comes()
    counter.oracle.left(1, Ending.FAILED)
    assert deeds(counter.does("start_failed", 1)) == [Dispatch(2, revision=1)]
    assert counter.counts()[3] == {"failed": 1}


def test_a_seat_is_free_when_the_engine_is_done_with_it() -> None:
    """The engine's word frees the seat, before the client has read its answer; the ticket stays in flight."""
    counter = Counter(small_preset(seats=2))
    counter.comes(seats=2)
    counter.comes()
    counter.oracle.seats[1] = 1
    assert deeds(counter.does("reseat", 1, 1)) == [Dispatch(2, revision=1)]
    assert counter.counts()[2] == 2
    counter.oracle.seats[1] = 0
    assert deeds(counter.does("reseat", 1, 0)) == []
    assert counter.desk.seats_taken == 1


def test_a_follow_up_call_may_pass_the_limit_and_seats_nobody_else() -> None:
    """Whoever was admitted may take seats again; nobody new starts until the limit holds again."""
    counter = Counter(small_preset(seats=2))
    counter.comes()
    counter.comes()
    counter.oracle.seats[1] = 3
    counter.does("reseat", 1, 3)
    assert (counter.desk.seats_taken, counter.desk.limit) == (4, 2)
    assert ids(counter.comes()) == []
    assert ids(counter.leaves(2)) == []
    assert ids(counter.leaves(1)) == [3]


@pytest.mark.parametrize("event", ["first_token", "token_batch"])
def test_tokens_have_no_effect_on_anybody(event: str) -> None:
    """Progress is noted, of the running; of strangers and of the waiting it is ignored."""
    counter = Counter(small_preset())
    counter.comes()
    counter.comes()
    for ticket_id in (1, 2, 99):
        assert counter.does(event, ticket_id) == []
    assert counter.counts() == (2, 1, 1, {})


# ---------------------------------------------------------------------- time


def test_who_waited_too_long_is_told_so_at_that_instant() -> None:
    """The queue time-out ends the wait at its very instant, not before."""
    counter = Counter(small_preset())
    counter.comes()
    counter.comes()
    assert deeds(counter.passes(9.999)) == []
    [expired] = deeds(counter.passes(0.001))
    assert isinstance(expired, Expire)
    assert (expired.ticket_id, expired.reason) == (2, Reason.QUEUE_TIMEOUT)
    assert counter.counts() == (2, 0, 1, {"expired_queued": 1})


def test_who_ran_too_long_is_stopped_and_keeps_its_seat_until_the_engine_lets_go() -> None:
    """The total time-out settles the ticket at once; its seat is handed on only when the engine is done with it."""
    counter = Counter(small_preset())
    counter.comes()
    counter.passes(55.0)
    counter.comes()
    assert deeds(counter.passes(5.0)) == [Abort(1, Reason.TOTAL_TIMEOUT)]
    assert counter.counts() == (2, 1, 0, {"expired_running": 1})
    assert counter.desk.seats_taken == 1
    assert ids(counter.leaves(1)) == [2]
    assert counter.counts() == (2, 0, 1, {"expired_running": 1})


@pytest.mark.parametrize(("asked_s", "queue_s", "total_s"), [(3.0, 3.0, 3.0), (30.0, 10.0, 30.0), (999.0, 10.0, 60.0)])
def test_a_client_may_shorten_its_time_and_never_lengthen_it(asked_s: float, queue_s: float, total_s: float) -> None:
    """The client's own deadline and its class's: the earlier one counts, waiting and running."""
    counter = Counter(small_preset())
    counter.comes(total_s=asked_s)
    counter.comes(total_s=asked_s)
    counter.now_s = queue_s - 0.01
    assert ids(counter.does("tick")) == []
    counter.now_s = queue_s
    assert 2 in ids(counter.does("tick"))
    counter.now_s = total_s
    counter.does("tick")
    assert counter.counts()[3] == {"expired_queued": 1, "expired_running": 1}


def test_the_wait_of_the_first_is_never_prolonged_by_those_who_come_later() -> None:
    """A deadline runs from the ticket's own arrival: no newcomer restarts it."""
    counter = Counter(small_preset())
    counter.comes()
    counter.comes()
    for _ in range(9):
        counter.passes(1.0)
        counter.comes()
    assert ids(counter.passes(1.0)) == [2]


LATE: dict[str, Callable[[Counter], list[Effect]]] = {
    "a refused arrival": lambda counter: counter.comes("batch"),
    "a stranger leaving": lambda counter: counter.does("leave", 99, Ending.COMPLETED),
    "a stranger's seats": lambda counter: counter.does("reseat", 99, 0),
    "a token": lambda counter: counter.does("first_token", 1),
    "an engine step": lambda counter: counter.does("observe", Load(1, 0, 0.0)),
}


@pytest.mark.parametrize("event", LATE.values(), ids=LATE)
def test_when_the_head_expires_those_behind_it_go_in_the_same_event(event: Callable[[Counter], list[Effect]]) -> None:
    """A wide ticket at the head runs out of time just before some other event: the narrow one behind it goes now."""
    counter = Counter(small_preset(2, classes={"normal": terms(2), "batch": terms(1, places=0)}))
    counter.comes()
    counter.comes(seats=2, total_s=5.0)
    counter.comes()
    counter.now_s = 5.0
    assert ids(event(counter))[:2] == [2, 3]
    assert counter.oracle.running == {1, 3}


def test_nobody_is_woken_without_a_deadline() -> None:
    """The desk asks for a tick when there is something to wait for, once for each earlier deadline; it never polls."""
    counter = Counter(small_preset(seats=1))
    assert counter.does("tick") == []
    assert counter.comes()[-1] == WakeAt(60.0)
    assert counter.comes()[-1] == WakeAt(10.0)
    assert counter.comes() == []
    assert counter.does("observe", Load(1, 0, 0.0)) == []


# ---------------------------------------------------------------------- the whole


def test_pause_lets_nobody_through_and_resume_lets_them_go() -> None:
    """Paused: arrivals wait, bounded and timed. Resumed: they go in order."""
    counter = Counter(small_preset(seats=2, most_waiting=2))
    assert counter.does("pause") == []
    counter.comes("batch")
    counter.comes("realtime")
    assert [type(one) for one in deeds(counter.comes())] == [Reject]
    assert deeds(counter.does("resume")) == [Dispatch(2, revision=1), Dispatch(1, revision=1)]


def test_drain_refuses_who_comes_and_who_waits_and_lets_the_running_finish() -> None:
    """Draining: the waiting and newcomers get DRAINING, the running complete."""
    counter = Counter(small_preset())
    counter.comes()
    counter.comes()
    counter.comes("batch")
    refused = counter.does("drain")
    assert [(one.ticket_id, one.reason) for one in refused if isinstance(one, Reject)] == [
        (2, Reason.DRAINING),
        (3, Reason.DRAINING),
    ]
    assert [one.reason for one in deeds(counter.comes()) if isinstance(one, Reject)] == [Reason.DRAINING]
    assert counter.desk.state is State.DRAINING
    counter.leaves(1)
    assert counter.counts() == (3, 0, 0, {"drained": 2, "completed": 1})


@pytest.mark.parametrize(
    ("why", "outcome"), [(Reason.ENGINE_LOST, Outcome.ENGINE_LOST), (Reason.DRAINING, Outcome.DRAINED)]
)
def test_a_lost_engine_settles_everybody_and_frees_every_seat(why: Reason, outcome: Outcome) -> None:
    """Waiting and running end once, as lost or as drained; newcomers are refused until it is back."""
    counter = Counter(small_preset())
    counter.comes()
    counter.comes()
    effects = deeds(counter.desk.engine_lost(0.0, why))
    assert effects == [Reject(2, why, effects[0].retry_after_s), Abort(1, why)]  # type: ignore[union-attr]  # a Reject
    assert counter.desk.seats_taken == 0
    assert counter.counts()[3] == {outcome.value: 2}
    third = deeds(counter.desk.arrive(Ticket(3, "normal", 0.0), 0.0))
    assert isinstance(third[0], Reject)
    assert third[0].reason is Reason.ENGINE_LOST
    counter.desk.engine_back(0.0)
    assert deeds(counter.desk.arrive(Ticket(4, "normal", 0.0), 0.0)) == [Dispatch(4, revision=1)]


def test_a_lost_engine_gets_nobody_even_when_the_head_expires_with_it() -> None:
    """Who stood behind an expired head is refused with the rest, not sent to an engine that is gone."""
    counter = Counter(small_preset(seats=2))
    counter.comes()
    counter.comes(seats=2, total_s=5.0)
    counter.comes()
    counter.now_s = 5.0
    effects = deeds(counter.does("engine_lost"))
    assert [type(one) for one in effects] == [Expire, Reject, Abort]


def test_more_seats_fill_at_once_and_fewer_seats_end_nobody() -> None:
    """A switch up dispatches in the same event; a switch down waits for the running to leave."""
    counter = Counter(small_preset(1))
    for _ in range(4):
        counter.comes()
    assert deeds(counter.does("switch", small_preset(3))) == [Dispatch(2, revision=2), Dispatch(3, revision=2)]
    assert deeds(counter.does("switch", small_preset(1))) == []
    assert counter.counts() == (4, 1, 3, {})
    assert ids(counter.leaves(1)) == []
    assert ids(counter.leaves(2)) == []
    assert deeds(counter.leaves(3)) == [Dispatch(4, revision=3)]


def test_who_waits_through_a_switch_keeps_its_place_and_its_deadline() -> None:
    """The order among the waiting is by the new urgencies and the old arrivals; time-outs stay as promised."""
    counter = Counter(small_preset())
    for name in ("normal", "batch", "realtime", "batch"):
        counter.comes(name)
    turned = small_preset(
        classes={"normal": terms(2), "batch": terms(9, queue_s=99.0), "realtime": terms(1, queue_s=99.0)}
    )
    counter.does("switch", turned)
    assert [one["id"] for one in dump(counter.desk, 0.0)["waiting"]] == [2, 4, 3]
    assert sorted(ids(counter.passes(10.0))) == [2, 3, 4]


def test_a_ticket_of_a_class_that_went_away_waits_in_the_default_class() -> None:
    """Nobody is dropped by a switch; the ledger goes on under the ticket's own class."""
    counter = Counter(small_preset())
    counter.comes()
    counter.comes("realtime")
    counter.does("switch", small_preset(classes={"only": terms(1)}))
    counter.comes("only")
    assert ids(counter.leaves(1)) == [2]
    assert counter.counts("realtime") == (1, 0, 1, {})


def test_bounds_of_a_smaller_preset_apply_to_newcomers_only() -> None:
    """Five wait, the new preset has room for one: the five stay, the next is refused."""
    counter = Counter(small_preset())
    for _ in range(6):
        counter.comes()
    counter.does("switch", small_preset(most_waiting=1))
    assert counter.counts() == (6, 5, 1, {})
    assert [type(one) for one in deeds(counter.comes())] == [Reject]


# ---------------------------------------------------------------------- questions


def test_the_dump_shows_ids_classes_and_times_and_nothing_of_the_content() -> None:
    """What an operator sees of each ticket is a closed list of keys."""
    counter = Counter(small_preset())
    counter.comes()
    counter.comes("batch")
    counter.passes(2.0)
    seen = dump(counter.desk, counter.now_s)
    assert seen["waiting"] == [
        {"id": 2, "class": "batch", "tenant": "", "seats": 1, "waited_s": 2.0, "expires_in_s": 8.0}
    ]
    assert seen["running"] == [
        {"id": 1, "class": "normal", "tenant": "", "phase": Phase.RUNNING.value, "seats": 1, "revision": 1,
         "running_s": 2.0}
    ]  # fmt: skip
    assert seen["ledger"]["normal"] == {"arrived": 1, "queued": 0, "in_flight": 1, "outcomes": {}}


def test_the_dump_is_short_however_many_wait() -> None:
    """An operator asks in the middle of an overload: the answer holds a hundred of each."""
    desk = Desk(small_preset(200, most_waiting=1_000, classes={"normal": terms(1, places=1_000)}))
    for number in range(600):
        desk.arrive(Ticket(number, "normal", 0.0), 0.0)
    seen = dump(desk, 0.0)
    assert (len(seen["waiting"]), len(seen["running"])) == (100, 100)


def test_the_oldest_wait_is_that_of_the_first_in_each_line() -> None:
    """Each class shows how long its first has waited, and nothing where nobody waits."""
    counter = Counter(small_preset())
    counter.comes()
    counter.comes("batch")
    counter.passes(3.0)
    counter.comes("batch")
    assert counter.desk.oldest_wait_s(4.0) == {"realtime": 0.0, "normal": 0.0, "batch": 4.0}


def test_every_event_of_the_desk_is_told_the_time() -> None:
    """No event reads a clock: each takes now_s and answers with effects."""
    events = {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(Desk, inspect.isfunction)
        if not name.startswith("_") and inspect.signature(method).return_annotation == "list[Effect]"
    }
    assert len(events) >= 14
    assert all("now_s" in signature.parameters for signature in events.values())
