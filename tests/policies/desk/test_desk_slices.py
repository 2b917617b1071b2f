"""Mass expiry: the desk settles very many tickets in slices, asks to be woken at once, and omits none."""

from __future__ import annotations

import pytest
from small_presets import small_preset, terms
from tiers import LONG
from watched_desk import WatchedDesk

from headway_policies import Abort, Desk, Dispatch, Ending, Expire, Ticket, Timeouts, WakeAt

MANY = 100_000 if LONG else 30_000
MAX_AT_ONCE = 1_000


def settle(desk: Desk, now_s: float) -> list[int]:
    """Tick as often as the desk asks for it at this instant; the number of effects of each tick."""
    sizes = []
    while True:
        effects = desk.tick(now_s)
        sizes.append(sum(not isinstance(one, WakeAt) for one in effects))
        wakes = [one.at_s for one in effects if isinstance(one, WakeAt)]
        if not wakes or min(wakes) > now_s:
            return sizes


@pytest.mark.slow
def test_very_many_deadlines_at_once_are_settled_in_slices() -> None:
    """No event does more than a slice, each asks for the next one, and after the last all are gone."""
    desk = Desk(small_preset(1, most_waiting=MANY, classes={"normal": terms(1, places=MANY, queue_s=5.0)}))
    for number in range(MANY + 1):
        desk.arrive(Ticket(number, "normal", 0.0), 0.0)
    sizes = settle(desk, 5.0)
    assert max(sizes) <= MAX_AT_ONCE
    assert sum(sizes) == MANY
    counts = desk.ledger.classes["normal"]
    assert (counts.balanced, counts.queued, counts.in_flight) == (True, 0, 1)
    assert counts.outcomes == {"expired_queued": MANY}


def test_between_two_slices_no_expired_ticket_is_dispatched() -> None:
    """Other events come while the slices are settled: each takes its slice, none lets the dead through."""
    desk = Desk(small_preset(1, most_waiting=5_000, classes={"normal": terms(1, places=5_000, queue_s=5.0)}))
    for number in range(3_000):
        desk.arrive(Ticket(number, "normal", 0.0), 0.0)
    effects = desk.leave(0, Ending.COMPLETED, 5.0)
    while any(isinstance(one, Expire) for one in effects):
        assert not any(isinstance(one, Dispatch) for one in effects)
        effects = desk.tick(5.0)
    assert effects == []
    assert (desk.ledger.queued, desk.ledger.in_flight) == (0, 0)


@pytest.mark.parametrize("wide", range(196, 205))
def test_a_ticket_behind_a_slice_is_dispatched_after_it(wide: int) -> None:
    """However many expire before its free seat, to the last one of a slice: the next in line is let through at once."""
    it = WatchedDesk(small_preset(2, most_waiting=1_000, classes={"normal": terms(1, places=1_000, queue_s=None)}))
    it.comes()
    for _ in range(wide):
        it.comes(seats=2, asked=Timeouts(queue_s=5.0))
    it.comes()
    it.passes(5.0)
    assert it.oracle.running == {1, wide + 2}


def test_ten_thousand_runs_that_are_over_at_once_are_given_up_in_slices() -> None:
    """The same for running tickets: all are stopped, in slices, at that instant."""
    desk = Desk(small_preset(10_000, classes={"normal": terms(1, total_s=9.0)}))
    for number in range(10_000):
        desk.arrive(Ticket(number, "normal", 0.0), 0.0)
    first = desk.tick(9.0)
    assert 0 < sum(isinstance(one, Abort) for one in first) <= MAX_AT_ONCE
    assert WakeAt(9.0) in first
    settle(desk, 9.0)
    assert desk.ledger.classes["normal"].outcomes == {"expired_running": 10_000}
    assert desk.seats_taken == 10_000


def test_expired_suspects_expire_and_none_of_them_is_dispatched() -> None:
    """Three hundred were running when the engine died: when it is back too late for all of them, none is replayed."""
    desk = Desk(small_preset(300, most_waiting=1_000, classes={"normal": terms(1, places=1_000, total_s=5.0)}))
    for number in range(300):
        desk.arrive(Ticket(number, "normal", 0.0), 0.0)
    desk.engine_restarting(range(300), 1.0)
    assert desk.read(0.0).suspects == 300
    effects = desk.engine_back(6.0)
    while any(isinstance(one, WakeAt) and one.at_s <= 6.0 for one in effects[-1:]):
        effects += desk.tick(6.0)
    assert not any(isinstance(one, Dispatch) for one in effects)
    assert sorted(one.ticket_id for one in effects if isinstance(one, Expire)) == list(range(300))
    assert (desk.read(0.0).suspects, desk.ledger.queued) == (0, 0)
