"""Pause, drain, a lost engine and a preset switch: events that affect every ticket."""

from __future__ import annotations

from itertools import islice

import pytest
from small_presets import small_preset, terms
from watched_desk import WatchedDesk, deeds, dispatched, ids

from headway_policies import (
    Abort,
    AdmissionState,
    Block,
    Desk,
    Dispatch,
    Ending,
    Expire,
    Outcome,
    Reason,
    Reject,
    Ticket,
    Timeouts,
    Usage,
)
from headway_policies.desk.admit import Queue
from headway_policies.desk.dump import dump
from headway_policies.fallback.rungs import Rung
from headway_policies.limits import LimitSettings
from headway_policies.queueing.factory import OrderSettings


def test_pause_dispatches_nothing_and_resume_dispatches_the_waiting() -> None:
    """Paused: arrivals wait, bounded and timed. Resumed: they go in order."""
    it = WatchedDesk(small_preset(seats=2, most_waiting=2))
    assert it.does("pause") == []
    it.comes("batch")
    it.comes("realtime")
    assert [type(one) for one in deeds(it.comes())] == [Reject]
    assert deeds(it.does("resume")) == [Dispatch(2, revision=1), Dispatch(1, revision=1)]


def test_resuming_from_one_cause_does_not_end_the_pause_for_another() -> None:
    """Only when the last cause is gone they go; the operator's resume ends a drain, no other one does."""
    desk = Desk(small_preset(seats=2))
    holds = (Block.ENGINE_PAUSED, Block.OPERATOR, Block.ENGINE_ASLEEP, Block.RECYCLE)
    for hold in holds:
        desk.pause(0.0, hold)
        desk.pause(0.0, hold)
    assert deeds(desk.arrive(Ticket(1, "normal", 0.0), 0.0)) == []
    for number, hold in enumerate(holds, start=1):
        gone = [Dispatch(1, revision=1)] if number == len(holds) else []
        assert (desk.mode.blocks, desk.mode.state) == (frozenset(holds[number - 1 :]), AdmissionState.PAUSED)
        assert deeds(desk.resume(0.0, hold)) == gone
    assert desk.mode.state is AdmissionState.OPEN
    desk.drain(0.0)
    for hold in holds[::2]:
        desk.pause(0.0, hold)
        desk.resume(0.0, hold)
        assert desk.mode.state is AdmissionState.DRAINING
    desk.resume(0.0)
    assert desk.mode.state is AdmissionState.OPEN


def test_drain_refuses_arriving_and_waiting_and_lets_the_running_finish() -> None:
    """Draining: waiting and arriving requests get DRAINING, running ones complete."""
    it = WatchedDesk(small_preset())
    it.comes()
    it.comes()
    it.comes("batch")
    refused = it.does("drain")
    assert [(one.ticket_id, one.reason) for one in refused if isinstance(one, Reject)] == [
        (2, Reason.DRAINING),
        (3, Reason.DRAINING),
    ]
    assert [one.reason for one in deeds(it.comes()) if isinstance(one, Reject)] == [Reason.DRAINING]
    assert it.desk.mode.state is AdmissionState.DRAINING
    it.leaves(1)
    assert it.counts() == (3, 0, 0, {"drained": 2, "completed": 1})


def test_what_a_dead_engine_was_running_does_not_wait_through_a_drain() -> None:
    """Nothing would be dispatched before its time-out: it is refused at once, so that it goes elsewhere."""
    it = WatchedDesk(small_preset(seats=2))
    it.comes()
    it.comes()
    it.does("drain")
    refused = it.does("engine_restarting", {1, 2})
    assert {(one.ticket_id, one.reason) for one in refused if isinstance(one, Reject)} == {
        (1, Reason.DRAINING),
        (2, Reason.DRAINING),
    }
    assert it.counts() == (2, 0, 0, {"drained": 2})


@pytest.mark.parametrize("tokens_came", [True, False])
def test_after_a_pause_of_the_shell_time_outs_are_checked_once_it_has_read_what_came(tokens_came: bool) -> None:
    """Three seconds in which nothing was heard: three more, and what is silent then is given up."""
    desk = Desk(small_preset(seats=1, classes={"normal": terms(1, total_s=60.0, stall_timeout_s=2.0)}))
    desk.arrive(Ticket(1, "normal", 0.0), 0.0)
    desk.reseat(1, 1, 0.0)
    desk.first_token(1, 1.0)
    desk.stood_still(3.0, 4.0)
    assert deeds(desk.tick(4.0)) == []
    if tokens_came:
        desk.token_batch(1, 6.5)
    assert deeds(desk.tick(7.0)) == ([] if tokens_came else [Abort(1, Reason.STALL_TIMEOUT)])
    assert deeds(desk.tick(8.5)) == ([Abort(1, Reason.STALL_TIMEOUT)] if tokens_came else [])


def test_a_pause_of_an_hour_does_not_put_time_outs_off_for_another_one() -> None:
    """What came meanwhile is read in less than half a minute."""
    desk = Desk(small_preset(seats=1, classes={"normal": terms(1, total_s=60.0, stall_timeout_s=2.0)}))
    desk.arrive(Ticket(1, "normal", 0.0), 0.0)
    desk.reseat(1, 1, 0.0)
    desk.first_token(1, 1.0)
    desk.stood_still(3600.0, 3601.0)
    assert deeds(desk.tick(3601.0)) == []
    assert [type(deed) for deed in deeds(desk.tick(3631.0))] == [Abort]


@pytest.mark.parametrize("tool_s", [0.0, 60.0])
def test_the_time_of_a_tool_is_no_time_in_the_engine(tool_s: float) -> None:
    """A request of two calls of a second each demands as much, however long its tool takes between them."""
    limit = LimitSettings(policy="aimd", inter_token_slo_ms=75.0)
    desk, now_s = Desk(small_preset(seats=4, classes={"normal": terms(1)}, limit=limit)), 0.0
    for number in range(1, 41):
        desk.arrive(Ticket(number, "normal", now_s, prompt_tokens=10, max_tokens=20), now_s)
        desk.first_token(number, now_s + 0.1)
        desk.reseat(number, 0, now_s + 1.0)
        desk.reseat(number, 1, now_s + 1.0 + tool_s)
        desk.reseat(number, 0, now_s + 2.0 + tool_s)
        desk.leave(number, Ending.COMPLETED, now_s + 2.0 + tool_s, Usage(10, 20))
        now_s += 3.0 + tool_s
    assert 1.0 <= desk._forecast._waits._residence_s <= 2.0
    assert desk._forecast.pace.ratio == pytest.approx(0.0, abs=1e-6)


def test_a_program_that_reads_slowly_makes_no_engine_slow() -> None:
    """The engine was done long before its request was over."""
    limit = LimitSettings(policy="aimd", inter_token_slo_ms=75.0)
    desk, now_s = Desk(small_preset(seats=16, classes={"normal": terms(1, total_s=None)}, limit=limit)), 0.0
    for number in range(1, 101):
        desk.arrive(Ticket(number, "normal", now_s, prompt_tokens=10, max_tokens=100), now_s)
        desk.first_token(number, now_s + 0.1)
        desk.reseat(number, 0, now_s + 5.0)
        now_s += 100.0 if number % 5 == 0 else 5.0
        desk.leave(number, Ending.COMPLETED, now_s, Usage(10, 100))
    assert desk._forecast.pace.ratio < 0.1


@pytest.mark.parametrize(
    ("why", "outcome"), [(Reason.ENGINE_LOST, Outcome.ENGINE_LOST), (Reason.DRAINING, Outcome.DRAINED)]
)
def test_a_lost_engine_settles_every_ticket_and_frees_every_seat(why: Reason, outcome: Outcome) -> None:
    """Waiting and running requests end once, as lost or as drained; arrivals are refused until it is back."""
    it = WatchedDesk(small_preset())
    it.comes()
    it.comes()
    effects = deeds(it.desk.engine_lost(0.0, why))
    assert effects == [Reject(2, why, effects[0].retry_after_s), Abort(1, why)]  # type: ignore[union-attr]  # a Reject
    assert it.desk.seats_taken == 0
    assert it.counts()[3] == {outcome.value: 2}
    third = deeds(it.desk.arrive(Ticket(3, "normal", 0.0), 0.0))
    assert isinstance(third[0], Reject)
    assert third[0].reason is why
    it.desk.engine_back(0.0)
    assert deeds(it.desk.arrive(Ticket(4, "normal", 0.0), 0.0)) == [Dispatch(4, revision=1)]


def test_a_lost_engine_gets_no_request_even_when_the_head_expires_with_it() -> None:
    """A ticket behind an expired head is refused with the rest, not sent to an engine that is lost."""
    it = WatchedDesk(small_preset(seats=2))
    it.comes()
    it.comes(seats=2, asked=Timeouts(total_s=5.0))
    it.comes()
    it.now_s = 5.0
    effects = deeds(it.does("engine_lost"))
    assert [type(one) for one in effects] == [Expire, Reject, Abort]


def test_more_seats_fill_at_once_and_fewer_seats_end_none() -> None:
    """A switch up dispatches in the same event; a switch down waits for the running to leave."""
    it = WatchedDesk(small_preset(1))
    for _ in range(4):
        it.comes()
    assert deeds(it.does("switch", small_preset(3))) == [Dispatch(2, revision=2), Dispatch(3, revision=2)]
    assert deeds(it.does("switch", small_preset(1))) == []
    assert it.counts() == (4, 1, 3, {})
    assert ids(it.leaves(1)) == []
    assert ids(it.leaves(2)) == []
    assert deeds(it.leaves(3)) == [Dispatch(4, revision=3)]


def test_a_ticket_that_waits_through_a_switch_keeps_its_place_and_its_deadline() -> None:
    """The order among the waiting is by the new urgencies and the old arrivals; time-outs stay as promised."""
    it = WatchedDesk(small_preset())
    for name in ("normal", "batch", "realtime", "batch"):
        it.comes(name)
    turned = small_preset(
        classes={"normal": terms(2), "batch": terms(9, queue_s=99.0), "realtime": terms(1, queue_s=99.0)}
    )
    it.does("switch", turned)
    assert [one["id"] for one in dump(it.desk, 0.0)["waiting"]] == [2, 4, 3]
    assert sorted(ids(it.passes(10.0))) == [2, 3, 4]


def test_a_ticket_of_a_class_that_went_away_waits_in_the_default_class() -> None:
    """No ticket is dropped by a switch; the ledger goes on under the ticket's own class."""
    it = WatchedDesk(small_preset())
    it.comes()
    it.comes("realtime")
    it.does("switch", small_preset(classes={"only": terms(1)}))
    it.comes("only")
    assert ids(it.leaves(1)) == [2]
    assert it.counts("realtime") == (1, 0, 1, {})


def test_bounds_of_a_smaller_preset_apply_to_arrivals_only() -> None:
    """Five wait, the new preset has room for one: the five stay, the next is refused."""
    it = WatchedDesk(small_preset())
    for _ in range(6):
        it.comes()
    it.does("switch", small_preset(most_waiting=1))
    assert it.counts() == (6, 5, 1, {})
    assert [type(one) for one in deeds(it.comes())] == [Reject]


def test_a_request_keeps_the_revision_under_which_it_was_let_through() -> None:
    """Each runs under exactly one preset revision, however often the preset changes while it runs."""
    it = WatchedDesk(small_preset(1))
    it.comes()
    it.comes()
    it.does("switch", small_preset(1, name="second"))
    it.does("switch", small_preset(1, name="third"))
    assert deeds(it.leaves(1)) == [Dispatch(2, revision=3)]
    assert [(one.ticket.id, one.revision) for one in it.desk.dispatched()] == [(2, 3)]


def test_a_switch_there_and_back_keeps_every_place() -> None:
    """Two orders one after the other leave the first one's order: by urgency, then by arrival."""
    it = WatchedDesk(small_preset(1))
    for name in ("normal", "batch", "realtime", "normal", "realtime"):
        it.comes(name)
    for between, inside in (("weighted", "fair"), ("ageing", "hrrn"), ("strict", "fifo")):
        it.does("switch", small_preset(1, between=between, inside=inside))
        it.oracle.check(it.now_s)
    assert [ticket.id for ticket, _ in it.desk.waiting()] == [3, 5, 4, 2]


def test_a_ceiling_holds_whatever_the_preset_asks() -> None:
    """The engine cannot give more seats than it has: a larger preset fills those, and at least one."""
    assert [Desk(small_preset(8), ceiling=most).limit for most in (None, 3, 0)] == [8, 3, 1]
    it = WatchedDesk(small_preset(8), ceiling=2)
    for _ in range(3):
        it.comes()
    assert it.desk.seats_taken == 2
    assert dispatched(it.does("switch", small_preset(64))) == []


class Unwilling:
    """An order that cannot be made."""

    def __init__(self, *_: object) -> None:
        raise RuntimeError("no such thing")


def test_a_switch_that_fails_has_changed_nothing_and_lost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ticket that expired at that moment is reported in the next event; the old preset is in force."""
    monkeypatch.setattr("headway_policies.queueing.factory.find_class", lambda path: Unwilling)
    it = WatchedDesk(small_preset(seats=1))
    it.comes()
    it.comes()
    it.now_s = 10.0
    ordering = OrderSettings(between="headway_policies.queueing.weighted:WeightedOrder")
    foreign = small_preset(seats=2, name="foreign").model_copy(update={"ordering": ordering})
    with pytest.raises(RuntimeError, match="no such thing"):
        it.desk.switch(foreign, it.now_s)
    assert (it.desk.preset.name, it.desk.mode.revision, it.desk.limit) == ("small", 1, 1)
    assert [one.ticket_id for one in it.passes(0.0) if isinstance(one, Expire)] == [2]
    assert it.counts() == (2, 0, 1, {"expired_queued": 1})


def test_a_request_that_is_refused_anyway_costs_the_order_no_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """An expired or load-shed request is refused before the order is queried."""
    shed = {"normal": terms(2), "batch": terms(1, sheddable=True)}
    it = WatchedDesk(small_preset(seats=1, classes=shed))
    it.does("fall_back", frozenset({Rung.SHED}))

    def asked(*_: object) -> bool:
        raise AssertionError("the scheduler was asked")

    monkeypatch.setattr(it.desk._scheduler, "goes_at_once", asked)
    reasons = [one.reason for name, asked_s in (("normal", 0.0), ("batch", None))
               for one in it.comes(name, asked=Timeouts(total_s=asked_s)) if isinstance(one, Reject)]  # fmt: skip
    assert reasons == [Reason.QUEUE_TIMEOUT, Reason.SHED]


def test_an_answer_to_an_arrival_changes_nothing() -> None:
    """Asked twice, it is the same, and the ticket that would be evicted waits on."""
    desk = Desk(small_preset(most_waiting=1, queue={"evict": True}))
    desk.arrive(Ticket(1, "batch", 0.0), 0.0)
    desk.arrive(Ticket(2, "batch", 0.0), 0.0)
    for _ in range(2):
        answer = desk._admission.admit(Ticket(3, "realtime", 0.0), None, 0.0)
        assert isinstance(answer, Queue)
        assert [one.id for one in islice(answer.evicted, 1)] == [2]
    assert (desk.ledger.queued, desk.ledger.classes["batch"].outcomes) == (1, {})


def test_the_effects_of_an_event_belong_to_its_caller() -> None:
    """A later event adds nothing to a list that was handed over, and what a failed event left behind is dropped."""
    desk = Desk(small_preset(seats=1))
    first = desk.arrive(Ticket(1, "normal", 0.0), 0.0)
    seen = list(first)
    desk._lifecycle.effects.append(Dispatch(9, 1))
    assert [one for one in desk.arrive(Ticket(2, "normal", 0.0), 0.0) if isinstance(one, Dispatch)] == []
    assert first == seen
    assert [one for one in first if isinstance(one, Dispatch)] == [Dispatch(1, 1, 1)]
