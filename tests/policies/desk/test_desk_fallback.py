"""The desk on each rung of the fallback ladder."""

from __future__ import annotations

from typing import Any

from small_presets import small_preset, terms

from headway_policies import Desk, Dispatch, Ending, Outcome, Preset, Reason, Reject, Ticket
from headway_policies.desk.effects import Degrade
from headway_policies.fallback.rungs import Fallback, Rung

CLASSES = {
    "realtime": terms(3, may_bypass=True),
    "normal": terms(2, fallback_max_tokens=64),
    "batch": terms(1, sheddable=True, queue_s=None),
}


def preset(seats: int = 1, **more: Any) -> Preset:
    """Realtime may go beside, normal may be cut, batch may be shed."""
    fallback = Fallback(bypass_seats=2)
    return small_preset(seats, classes=CLASSES, **more).model_copy(update={"fallback": fallback})


def dispatched(effects: list[Any]) -> list[tuple[int, bool]]:
    """The dispatched tickets, and whether beside the batch."""
    return [(one.ticket_id, one.beside) for one in effects if isinstance(one, Dispatch)]


def balanced(desk: Desk) -> None:
    """The ledger adds up."""
    assert all(counts.balanced for counts in desk.ledger.classes.values())


def test_an_answer_is_cut_and_the_effect_comes_before_the_dispatch() -> None:
    """Only of a class that allows it, and never below what was asked for."""
    desk = Desk(preset(10))
    desk.fall_back(frozenset({Rung.CAP}), 0.0)
    for ticket_id, (name, asked, cut) in enumerate(
        [("normal", 100, True), ("normal", None, True), ("normal", 64, False), ("realtime", 100, False)]
    ):
        effects = desk.arrive(Ticket(ticket_id, name, 0.0, max_tokens=asked), 0.0)
        assert [one for one in effects if isinstance(one, Degrade)] == ([Degrade(ticket_id, 64)] if cut else [])
        assert isinstance(effects[cut], Dispatch)
    desk.fall_back(frozenset(), 1.0)
    assert not any(isinstance(one, Degrade) for one in desk.arrive(Ticket(9, "normal", 1.0), 1.0))


def test_a_switch_takes_seats_and_rungs_in_one_step() -> None:
    """Requests that the switch dispatches are under the rungs of the new preset; without any, the old ones stay."""
    for rungs, cut in ((None, [Degrade(1, 64)]), (frozenset({Rung.CAP}), [Degrade(1, 64)]), (frozenset(), [])):
        desk = Desk(preset())
        desk.fall_back(frozenset({Rung.CAP}), 0.0)
        for ticket_id in range(2):
            desk.arrive(Ticket(ticket_id, "normal", 0.0, max_tokens=100), 0.0)
        effects = desk.switch(preset(2), 1.0, rungs)
        assert [one for one in effects if isinstance(one, Degrade)] == cut
        assert dispatched(effects) == [(1, False)]
        assert desk.mode.in_force == (frozenset({Rung.CAP}) if rungs is None else rungs)


def test_a_switch_that_enters_a_shedding_rung_refuses_what_waits() -> None:
    """As ``fall_back`` does; where the rung was in force before, the switch refuses nothing that waits."""
    for before, refused in ((frozenset({Rung.CAP}), [1]), (frozenset({Rung.SHED}), [])):
        desk = Desk(small_preset(1, classes={"normal": terms(2), "batch": terms(1)}))
        desk.fall_back(before, 0.0)
        for ticket_id, name in enumerate(["normal", "batch", "normal"]):
            desk.arrive(Ticket(ticket_id, name, 0.0), 0.0)
        effects = desk.switch(preset(), 1.0, frozenset({Rung.SHED}))
        assert [(one.ticket_id, one.reason) for one in effects if isinstance(one, Reject)] == [
            (ticket_id, Reason.SHED) for ticket_id in refused
        ]
        balanced(desk)


def test_a_switch_that_leaves_the_pause_dispatches() -> None:
    """In the same step, under the seats of the new preset."""
    desk = Desk(preset())
    desk.fall_back(frozenset({Rung.PAUSE}), 0.0)
    for ticket_id in range(3):
        desk.arrive(Ticket(ticket_id, "normal", 0.0), 0.0)
    assert dispatched(desk.switch(preset(2), 1.0, frozenset())) == [(0, False), (1, False)]


def test_a_class_is_shed_waiting_and_arriving_and_no_other() -> None:
    """Running requests go on; after it, all classes are admitted again."""
    desk = Desk(preset())
    for ticket_id, name in enumerate(["batch", "batch", "normal"]):
        desk.arrive(Ticket(ticket_id, name, 0.0), 0.0)
    effects = desk.fall_back(frozenset({Rung.SHED}), 1.0)
    assert [(one.ticket_id, one.reason) for one in effects if isinstance(one, Reject)] == [(1, Reason.SHED)]
    (refused,) = [one for one in desk.arrive(Ticket(3, "batch", 1.0), 1.0) if isinstance(one, Reject)]
    assert refused.reason is Reason.SHED
    desk.fall_back(frozenset(), 2.0)
    desk.arrive(Ticket(4, "batch", 2.0), 2.0)
    counts = desk.ledger.classes["batch"]
    assert (counts.queued, counts.in_flight, counts.outcomes) == (1, 1, {Outcome.SHED: 2})
    balanced(desk)


def test_a_pause_holds_all_requests_and_ends() -> None:
    """The time-outs of waiting requests go on; an operator's own pause is separate."""
    desk = Desk(preset())
    desk.fall_back(frozenset({Rung.PAUSE}), 0.0)
    assert dispatched(desk.arrive(Ticket(1, "normal", 0.0), 0.0)) == []
    assert dispatched(desk.fall_back(frozenset(), 1.0)) == [(1, False)]


def bypass(ceiling: int | None = None) -> Desk:
    """A dynamic batch of two is running, and the queue is old."""
    desk = Desk(preset(2, batching={"strategy": "dynamic", "window_ms": 100}), ceiling=ceiling)
    for ticket_id in (1, 2):
        desk.arrive(Ticket(ticket_id, "batch", 0.0), 0.0)
    desk.tick(0.1)
    assert desk.seats_taken == 2
    return desk


def test_a_few_go_beside_the_batch() -> None:
    """Of the classes that may, as many as the bypass has seats; an ended request frees its seat for the next."""
    desk = bypass()
    for ticket_id, name in enumerate(["normal", "realtime", "realtime", "realtime"], 3):
        assert dispatched(desk.arrive(Ticket(ticket_id, name, 1.0), 1.0)) == []
    assert dispatched(desk.fall_back(frozenset({Rung.BYPASS}), 2.0)) == [(4, True), (5, True)]
    assert desk.seats_taken == 4
    assert dispatched(desk.leave(4, Ending.COMPLETED, 3.0)) == [(6, True)]
    desk.leave(5, Ending.CANCELLED, 3.0)
    desk.leave(6, Ending.COMPLETED, 3.0)
    assert dispatched(desk.leave(1, Ending.COMPLETED, 4.0)) == []
    assert dispatched(desk.leave(2, Ending.COMPLETED, 5.0)) == [(3, False)]
    balanced(desk)


def test_the_next_batch_does_not_wait_for_those_beside() -> None:
    """The barrier is the batch's alone."""
    desk = bypass()
    desk.fall_back(frozenset({Rung.BYPASS}), 1.0)
    assert dispatched(desk.arrive(Ticket(3, "realtime", 1.0), 1.0)) == [(3, True)]
    desk.arrive(Ticket(4, "normal", 1.0), 1.0)
    desk.leave(1, Ending.COMPLETED, 2.0)
    assert dispatched(desk.leave(2, Ending.COMPLETED, 2.0)) == [(4, False)]
    assert desk.seats_taken == 2


def test_the_bypass_never_passes_the_engine() -> None:
    """An engine that has one seat more than the batch gives one."""
    for ceiling, seats in ((2, 0), (3, 1), (9, 2)):
        desk = bypass(ceiling)
        desk.fall_back(frozenset({Rung.BYPASS}), 1.0)
        going = [dispatched(desk.arrive(Ticket(ticket_id, "realtime", 1.0), 1.0)) for ticket_id in range(3, 8)]
        assert sum(map(len, going)) == seats
        assert desk.seats_taken == 2 + seats


def test_a_dead_engine_takes_those_beside_with_it() -> None:
    """The seats of the bypass become free, and requests that can be retried wait again."""
    desk = bypass()
    desk.fall_back(frozenset({Rung.BYPASS}), 1.0)
    desk.arrive(Ticket(3, "realtime", 1.0), 1.0)
    desk.engine_restarting({3}, 2.0)
    assert desk.seats_taken == 0
    assert dispatched(desk.engine_back(3.0)) == [(3, False)]
    assert dispatched(desk.leave(3, Ending.COMPLETED, 4.0)) == []
    assert desk.seats_taken == 0
    balanced(desk)
