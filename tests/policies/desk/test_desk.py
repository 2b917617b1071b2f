"""Each event of a ticket: its exact effects, and what stands in the ledger afterwards."""

from __future__ import annotations

import inspect

import pytest
from small_presets import small_preset
from watched_desk import WatchedDesk, deeds, ids

from headway_policies import Decision, Desk, Dispatch, Ending, Outcome, Reason, Reject, Ticket, Timeouts, WakeAt

SOON_S = 1  # Retry-After while nothing has left the line yet, or the line is empty


def test_an_arrival_with_a_free_seat_is_dispatched_at_once() -> None:
    """A seat is free: dispatched in the very event, and the total time-out is armed."""
    it = WatchedDesk(small_preset())
    assert it.comes() == [Dispatch(1, revision=1), WakeAt(60.0)]
    assert it.counts() == (1, 0, 1, {})
    assert it.desk.ledger.classes["normal"].decisions == {Decision.SEATED: 1}


def test_an_arrival_without_a_free_seat_waits_until_one_is_free() -> None:
    """Without a seat: no effect but the wake-up for the queue time-out; then the seat is handed on."""
    it = WatchedDesk(small_preset())
    it.comes()
    assert it.comes() == [WakeAt(10.0)]
    assert it.counts() == (2, 1, 1, {})
    assert it.desk.ledger.classes["normal"].decisions == {Decision.SEATED: 1, Decision.QUEUED: 1}
    assert deeds(it.leaves(1)) == [Dispatch(2, revision=1)]
    assert it.counts() == (2, 0, 1, {"completed": 1})


@pytest.mark.parametrize("total_s", [0.0, -1.0])
def test_an_arrival_after_its_own_deadline_is_refused(total_s: float) -> None:
    """A deadline that has passed is never dispatched, even where a seat is free."""
    it = WatchedDesk(small_preset())
    it.passes(5.0)
    assert it.comes(asked=Timeouts(total_s=total_s)) == [Reject(1, Reason.QUEUE_TIMEOUT, SOON_S)]
    assert it.counts() == (1, 0, 0, {"expired_queued": 1})


def test_an_arrival_that_was_received_too_late_is_refused() -> None:
    """The class's queue time counts from the arrival the ticket names, not from the event."""
    desk = Desk(small_preset())
    assert desk.arrive(Ticket(1, "normal", arrived_s=0.0), 10.0) == [Reject(1, Reason.QUEUE_TIMEOUT, SOON_S)]
    assert deeds(desk.arrive(Ticket(2, "normal", arrived_s=0.1), 10.0)) == [Dispatch(2, revision=1)]


@pytest.mark.parametrize(("name", "ticket_id"), [("gold", 2), ("normal", 1)], ids=["unknown class", "doubled id"])
def test_a_ticket_that_cannot_be_is_refused_by_an_error_that_changes_nothing(name: str, ticket_id: int) -> None:
    """A wrong class or an id that is here already raises, and the ledger stays as it was."""
    it = WatchedDesk(small_preset())
    it.comes()
    with pytest.raises(ValueError, match=f"ticket {ticket_id}"):
        it.desk.arrive(Ticket(ticket_id, name, 0.0), 0.0)
    assert it.counts() == (1, 0, 1, {})


def test_a_ticket_takes_at_least_one_seat() -> None:
    """A request of no sequences is a mistake of the caller."""
    with pytest.raises(ValueError, match="at least 1"):
        Ticket(1, "normal", 0.0, seats=0)


def test_the_most_urgent_goes_first_and_the_lowest_last() -> None:
    """Whatever the order of arrival, a freed seat goes to the most urgent class, first come first served inside it."""
    it = WatchedDesk(small_preset())
    for name in ("normal", "batch", "normal", "realtime", "batch", "realtime"):
        it.comes(name)
    served = []
    for leaving in (1, 4, 6, 3, 2):
        served += ids(it.leaves(leaving))
    assert served == [4, 6, 3, 2, 5]


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
    """The outcome follows from where the ticket stood and what it reports; a second leave changes nothing."""
    it = WatchedDesk(small_preset())
    it.comes("batch")
    it.comes("normal" if phase == "waiting" else "batch")
    who, name = (2, "normal") if phase == "waiting" else (1, "batch")
    it.leaves(who, ending)
    assert it.counts(name)[3] == {outcome.value: 1}
    assert it.desk.leave(who, Ending.FAILED, it.now_s) == []
    assert it.counts(name)[3] == {outcome.value: 1}


def test_every_ending_is_in_the_table_above() -> None:
    """A new ending wants a row."""
    assert {ending for _, ending in LEAVING} == set(Ending)


@pytest.mark.parametrize("event", ["first_token", "token_batch"])
def test_tokens_have_no_effect_on_anybody(event: str) -> None:
    """Progress of running tickets is noted; of unknown and of waiting ones it is ignored."""
    it = WatchedDesk(small_preset())
    it.comes()
    it.comes()
    for ticket_id in (1, 2, 99):
        assert it.does(event, ticket_id) == []
    assert it.counts() == (2, 1, 1, {})


def test_every_event_of_the_desk_gets_the_time() -> None:
    """No event reads a clock: each takes now_s and answers with effects."""
    events = {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(Desk, inspect.isfunction)
        if not name.startswith("_") and inspect.signature(method).return_annotation == "list[Effect]"
    }
    assert len(events) >= 14
    assert all("now_s" in signature.parameters for signature in events.values())
