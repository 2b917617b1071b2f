"""Seats in the engine: several at once, reserved ones, and those of a follow-up call."""

from __future__ import annotations

from typing import Any

import pytest
from small_presets import small_preset, terms
from watched_desk import WatchedDesk, deeds, dispatched, ids

from headway_policies import Desk, Dispatch, Ending, Ticket, bundled_presets
from headway_policies.desk.books.seats import Seats


def test_a_ticket_that_needs_several_seats_waits_for_all_of_them() -> None:
    """A wide ticket at the head is not overtaken by narrow ones of its class, and starts with all its seats free."""
    it = WatchedDesk(small_preset(seats=4))
    it.comes(seats=2)
    it.comes(seats=3)
    it.comes(seats=1)
    assert it.counts()[1] == 2
    assert ids(it.leaves(1)) == [2, 3]
    assert it.desk.seats_taken == 4


def test_a_ticket_that_needs_more_seats_than_there_are_gets_all_of_them() -> None:
    """A ticket wider than the limit is served alone rather than never."""
    it = WatchedDesk(small_preset(seats=4))
    assert ids(it.comes(seats=99)) == [1]
    assert it.desk.seats_taken == 4
    assert ids(it.comes()) == []


def test_a_seat_is_free_when_the_engine_is_done_with_it() -> None:
    """The engine's word frees the seat, before the client has read its answer; the ticket stays in flight."""
    it = WatchedDesk(small_preset(seats=2))
    it.comes(seats=2)
    it.comes()
    assert deeds(it.holds(1, 1)) == [Dispatch(2, revision=1)]
    assert it.counts()[2] == 2
    assert deeds(it.holds(1, 0)) == []
    assert it.desk.seats_taken == 1


def test_a_follow_up_call_may_pass_the_limit_and_admits_no_other() -> None:
    """An admitted ticket may take seats again; no new one starts until the limit holds again."""
    it = WatchedDesk(small_preset(seats=2))
    it.comes()
    it.comes()
    it.holds(1, 3)
    assert (it.desk.seats_taken, it.desk.limit) == (4, 2)
    assert ids(it.comes()) == []
    assert ids(it.leaves(2)) == []
    assert ids(it.leaves(1)) == [3]


def reserving(
    seats: int = 4, *, realtime: int = 0, normal: int = 0, batching: dict[str, Any] | None = None, **more: Any
) -> WatchedDesk:
    """A desk on which the two upper classes keep seats free."""
    classes = {
        "realtime": terms(3, reserved_seats=realtime),
        "normal": terms(2, reserved_seats=normal),
        "batch": terms(1),
    }
    return WatchedDesk(small_preset(seats, classes=classes, batching=batching, **more))


def test_a_reserve_is_kept_from_all_below_and_from_no_other() -> None:
    """Of four seats realtime keeps one and normal one: batch gets two, normal three, realtime all."""
    for name, most in (("batch", 2), ("normal", 3), ("realtime", 4)):
        it = reserving(realtime=1, normal=1)
        for _ in range(6):
            it.comes(name)
        assert it.desk.seats_taken == most, name
        it.oracle.check(it.now_s)


def test_the_owner_of_a_reserve_finds_its_seat_free() -> None:
    """However many wait below, a realtime arrival is dispatched in its very event, and batch takes over when it
    ends."""
    it = reserving(realtime=1)
    for _ in range(9):
        it.comes("batch")
    assert dispatched(it.comes("realtime")) == [10]
    assert it.desk.seats_taken == 4
    assert dispatched(it.leaves(10)) == []
    assert dispatched(it.leaves(1)) == [4]


def test_a_switch_holds_the_seats_of_the_new_preset_before_it_fills_any() -> None:
    """From 8 seats to 64 with normal requests waiting for all of them: four are held for realtime, and found free."""
    presets = bundled_presets()
    desk = Desk(presets["latency"])
    for number in range(100):
        desk.arrive(Ticket(number, "normal", 0.0), 0.0)
    assert (desk.seats_taken, desk.read(0.0).reserved_seats) == (7, {"realtime": 1, "normal": 0, "batch": 0})
    desk.switch(presets["throughput"], 1.0)
    assert (desk.seats_taken, desk.read(0.0).reserved_seats) == (60, {"realtime": 4, "normal": 0, "batch": 0})
    for number in range(100, 104):
        assert any(isinstance(one, Dispatch) for one in desk.arrive(Ticket(number, "realtime", 1.0), 1.0))
    desk.switch(presets["offline"], 2.0)
    assert desk.read(0.0).reserved_seats == dict.fromkeys(("realtime", "normal", "batch"), 0)


@pytest.mark.parametrize(("seats", "held"), [(1, 0), (7, 0), (8, 1), (31, 1), (32, 2), (64, 4)])
def test_a_sixteenth_of_the_seats_is_held_for_the_most_urgent_class(seats: int, held: int) -> None:
    """With an objective and no reserve of its own; none of very few seats, and none for a class below it."""
    classes = {"urgent": terms(3, ttft_slo_s=1), "middle": terms(2, ttft_slo_s=5), "low": terms(1, ttft_slo_s=60)}
    desk = Desk(small_preset(seats, classes=classes))
    desk.arrive(Ticket(0, "low", 0.0), 0.0)
    assert desk.read(0.0).reserved_seats == {"urgent": held, "middle": 0, "low": 0}


def test_a_stated_reserve_stays_as_it_is_whatever_the_objective() -> None:
    """Also none: an operator who states 0 gets 0."""
    for stated in (0, 5):
        desk = Desk(
            small_preset(32, classes={"urgent": terms(2, ttft_slo_s=1, reserved_seats=stated), "low": terms(1)})
        )
        for number in range(40):
            desk.arrive(Ticket(number, "low", 0.0), 0.0)
        assert (desk.read(0.0).reserved_seats["urgent"], desk.seats_taken) == (stated, 32 - stated)


def test_a_used_reserve_keeps_nothing_more_free() -> None:
    """Two realtime requests use a reserve of two: the other two seats are for any class."""
    it = reserving(realtime=2)
    it.comes("realtime")
    it.comes("realtime")
    assert [dispatched(it.comes("batch")) for _ in range(3)] == [[3], [4], []]


@pytest.mark.parametrize("evict", [True, False])
def test_a_reserve_holds_though_the_queue_is_full(evict: bool) -> None:
    """A ticket that need not wait needs no place in the queue: it is dispatched, and none is evicted for it."""
    it = reserving(2, realtime=1, most_waiting=2, queue={"evict": evict})
    for _ in range(3):
        it.comes("batch")
    assert deeds(it.comes("realtime")) == [Dispatch(4, revision=1)]
    assert it.desk.ledger.queued == 2


@pytest.mark.parametrize("between", ["strict", "ageing", "weighted"])
def test_a_wide_request_below_does_not_bar_a_reserve(between: str) -> None:
    """A batch request for several seats waits at the head; realtime goes past it into its own reserve."""
    it = reserving(4, realtime=1, between=between)
    it.comes("batch")
    it.comes("batch", seats=3)
    it.passes(5.0)
    assert dispatched(it.comes("realtime")) == [3]
    assert dispatched(it.leaves(1)) == [2]


@pytest.mark.parametrize("between", ["strict", "ageing", "weighted"])
def test_no_ticket_passes_a_more_urgent_request_into_a_lower_reserve(between: str) -> None:
    """A realtime request for all seats is next: a normal arrival does not take what it waits for."""
    it = reserving(4, normal=2, between=between)
    it.comes("normal")
    it.comes("realtime", seats=4)
    it.comes("normal")
    assert dispatched(it.leaves(1)) == [2]


@pytest.mark.parametrize("batching", [{}, {"strategy": "static", "flush_after_s": 2.0}, {"strategy": "dynamic"}])
@pytest.mark.parametrize("limit", [1, 2, 3])
@pytest.mark.parametrize("wanted", [1, 2, 9])
def test_reserves_larger_than_the_limit_block_no_class(limit: int, wanted: int, batching: dict[str, Any]) -> None:
    """When the engine gives fewer seats than are reserved, even a wide batch request gets one in the end."""
    it = reserving(8, realtime=3, normal=3, batching=batching)
    it = WatchedDesk(it.desk.preset, ceiling=limit)
    it.comes("batch", seats=wanted)
    it.passes(3.0)
    assert it.oracle.running == {1}
    assert 1 <= it.desk.seats_taken <= limit


def test_a_wide_request_gets_all_that_its_class_can_ever_have() -> None:
    """Nine sequences on four seats of which two are reserved: it runs in two, and leaves the reserve alone."""
    it = reserving(4, realtime=2)
    it.comes("batch", seats=9)
    assert it.desk.seats_taken == 2
    assert dispatched(it.comes("realtime", seats=2)) == [2]


def test_a_ticket_in_the_queue_of_another_class_keeps_to_its_reserves() -> None:
    """A class that went away with a switch waits in the default class, and sees the limit as that class does."""
    it = WatchedDesk(small_preset(1))
    it.comes("normal")
    for _ in range(3):
        it.comes("realtime")
    it.does("switch", small_preset(3, classes={"only": terms(1), "above": terms(2, reserved_seats=1)}))
    assert it.desk.seats_taken == 2
    assert dispatched(it.comes("above")) == [5]
    it.oracle.check(it.now_s)


def waiting_behind_a_wide_head(inside: str = "fifo", **batching: Any) -> WatchedDesk:
    """Under ageing a wide batch ticket has come to the head and does not fit: three seats, one kept, one taken."""
    classes = {"realtime": terms(3, queue_s=None, reserved_seats=1), "batch": terms(1, queue_s=None, total_s=None)}
    it = WatchedDesk(small_preset(3, between="ageing", inside=inside, classes=classes, batching=batching))
    it.comes("batch", prompt_tokens=100, max_tokens=100)
    it.comes("batch", seats=2, prompt_tokens=100, max_tokens=100)
    it.passes(1000.0)
    return it


def test_a_reserve_is_of_use_though_another_class_is_first_in_line() -> None:
    """The head waits for seats it may not have anyway: the class of the reserve passes it."""
    it = waiting_behind_a_wide_head()
    assert ids(it.comes("realtime")) == [3]


@pytest.mark.parametrize("inside", ["fifo", "hrrn"])
def test_tickets_that_pass_the_head_keep_the_order_of_their_queue(inside: str) -> None:
    """Two realtime tickets wait for one kept seat, however their line is ordered: the first goes, the other follows."""
    it = waiting_behind_a_wide_head(inside)
    for _ in range(3):
        it.comes("realtime", prompt_tokens=10, max_tokens=10)
    assert it.oracle.running == {1, 3}
    it.passes(1.0)
    assert dispatched(it.leaves(3)) == [4]
    assert dispatched(it.leaves(4)) == [5]


def test_no_ticket_takes_the_tokens_that_the_head_waits_for() -> None:
    """With the seats it is another matter than with the token budget: what passes would take from the head."""
    it = waiting_behind_a_wide_head(max_total_tokens=250)
    assert ids(it.comes("realtime", prompt_tokens=10, max_tokens=10)) == []


def reserves(**kept: int) -> Seats:
    """The seats of three classes which keep so many for themselves."""
    seats = Seats()
    priorities = {"realtime": 3, "normal": 2, "batch": 1}
    seats.reserve({name: terms(priority, reserved_seats=kept.get(name, 0)) for name, priority in priorities.items()})
    return seats


def test_what_is_left_of_the_reserves_above_a_class() -> None:
    """Only of classes above it, less what they have taken, and nothing of a reserve that is used up."""
    seats = reserves(realtime=2, normal=1)
    assert seats.reserves_above("batch") == {"realtime": 2, "normal": 1}
    assert (seats.reserves_above("normal"), seats.reserves_above("realtime")) == ({"realtime": 2}, {})
    seats.take("realtime", 1, 10)
    seats.take("normal", 1, 10)
    assert seats.reserves_above("batch") == {"realtime": 1}
    assert seats.reserves_above("a class that went away") == {}


@pytest.mark.parametrize(("taken", "barred"), [(0, []), (1, []), (2, ["batch"]), (3, ["batch", "normal"]), (4, None)])
def test_classes_are_barred_one_after_another(taken: int, barred: list[str] | None) -> None:
    """Of four seats one is reserved for each of the two upper classes; a class below a reserve is blocked first."""
    seats = reserves(realtime=1, normal=1)
    for _ in range(taken):
        seats.take("batch", 1, 0)
    assert sorted(seats.barred(4)) == (["batch", "normal"] if barred is None else barred)
    assert [seats.fit(name, 1, 4) for name in ("realtime", "normal", "batch")] == [taken < 4, taken < 3, taken < 2]


def test_a_wide_ticket_of_an_unknown_class_may_have_all() -> None:
    """A class that the reserves do not know has none above it."""
    seats = reserves(realtime=1)
    assert (seats.needed("a class that went away", 9, 4), seats.needed("batch", 9, 4)) == (4, 3)


@pytest.mark.parametrize(("arrivals", "held"), [(0, 2), (3, 8)], ids=["below capacity", "overload"])
def test_in_an_overload_that_costs_requests_seats_are_held_for_what_a_class_has_now(arrivals: int, held: int) -> None:
    """Five urgent requests run, more than their mean demand. Below capacity no more seats are held for it; where less
    urgent requests are refused, five and the root of it at once, so that the next urgent ones find seats too.
    """
    classes = {"urgent": terms(2, ttft_slo_s=1), "low": terms(1, places=1000, ttft_slo_s=1, burst_s=0.5)}
    desk, made = Desk(small_preset(32, classes=classes)), 0
    running: list[int] = []
    for step in range(60):
        now_s, ends = step / 10, step % 5 == 0 and len(running) > 20
        for name in ["low"] * (arrivals + ends) + ["urgent"] * (40 <= step < 45):
            made += 1
            running += dispatched(desk.arrive(Ticket(made, name, now_s, prompt_tokens=10, max_tokens=20), now_s))
        running += dispatched(desk.tick(now_s))
        if ends:
            running += dispatched(desk.leave(running.pop(0), Ending.COMPLETED, now_s))
    assert desk.read(0.0).reserved_seats["urgent"] == held
