"""The bounds of the queue: which arrivals fit, and which tickets are evicted for them."""

from __future__ import annotations

from typing import Any

import pytest
from small_presets import small_preset, terms
from watched_desk import WatchedDesk, deeds, dispatched, ids

from headway_policies import (
    Decision,
    Desk,
    Dispatch,
    Ending,
    Outcome,
    Reason,
    Reject,
    Ticket,
    Timeouts,
    Usage,
    bundled_presets,
)
from headway_policies.preset import with_fixed_limit
from headway_policies.queueing.factory import make_order
from headway_policies.queueing.wait_queue import Lane, WaitQueue


def test_a_queue_without_places_still_seats_requests_that_need_not_wait() -> None:
    """max_waiting = 0 means that no request waits, not that none is served."""
    it = WatchedDesk(small_preset(most_waiting=0))
    assert deeds(it.comes()) == [Dispatch(1, revision=1)]
    assert [type(one) for one in deeds(it.comes())] == [Reject]


def test_a_flood_of_batch_work_takes_no_realtime_place() -> None:
    """With the bundled presets a full batch queue refuses batch work, while realtime work still gets in."""
    desk = Desk(with_fixed_limit(bundled_presets()["latency"], 8))
    for number in range(5_100):
        desk.arrive(Ticket(number, "batch", 0.0), 0.0)
    assert desk.ledger.classes["batch"].outcomes[Outcome.REJECTED_FULL] == 5_100 - 5_000 - 7
    assert dispatched(desk.arrive(Ticket(9_000, "realtime", 0.0), 0.0)) == [9_000], "the reserved seat"
    assert dispatched(desk.arrive(Ticket(9_001, "realtime", 0.0), 0.0)) == [9_001], "beyond the limit, up to its share"


BOUNDS: dict[str, tuple[str, int]] = {
    "max_waiting": ("seats", 3),
    "max_waiting_tokens": ("prompt_tokens", 300),
    "max_waiting_bytes": ("prompt_bytes", 3000),
}


@pytest.mark.parametrize("where", ["over all", "in its class"])
@pytest.mark.parametrize(("key", "measure"), BOUNDS.items(), ids=BOUNDS)
def test_a_bound_is_met_exactly(where: str, key: str, measure: tuple[str, int]) -> None:
    """Requests, prompt tokens and bytes, in all and by class: what comes to the bound waits, one more is refused."""
    what, bound = measure
    own = {"places": 3} if key == "max_waiting" else {key: bound}
    classes = {"normal": terms(2, **(own if where == "in its class" else {})), "batch": terms(1)}
    it = WatchedDesk(small_preset(1, classes=classes, queue={key: bound} if where == "over all" else {}))
    it.comes()
    for _ in range(3):
        assert deeds(it.comes(prompt_tokens=100, prompt_bytes=1000)) == []
    [refused] = deeds(it.comes(prompt_tokens=1, prompt_bytes=1))
    assert isinstance(refused, Reject)
    reason = Reason.QUEUE_FULL if where == "over all" else Reason.CLASS_QUEUE_FULL
    ledger = it.desk.ledger.classes["normal"]
    assert (refused.reason, ledger.refusals, ledger.outcomes) == (reason, {reason: 1}, {Outcome.REJECTED_FULL: 1})
    assert ledger.decisions[Decision.REJECTED] == 1
    it.leaves(2, Ending.CANCELLED)
    assert deeds(it.comes(prompt_tokens=100, prompt_bytes=1000)) == []
    assert (it.reading.waiting_tokens, it.reading.waiting_bytes) == (300, 3000), what
    it.oracle.check(it.now_s)


def crowded(*, evict: bool = True, **bounds: int) -> WatchedDesk:
    """One runs; batch 2, normal 3, batch 4 and normal 5 wait, with 100 tokens each, and the queue is full."""
    it = WatchedDesk(small_preset(1, queue={"evict": evict} | (bounds or {"max_waiting": 4})))
    for name in ("realtime", "batch", "normal", "batch", "normal"):
        it.comes(name, prompt_tokens=100)
    return it


def test_a_more_urgent_arrival_evicts_the_newest_of_the_least_urgent_class() -> None:
    """The one evicted has waited least in the least urgent class, gets a Retry-After, and counts as shed."""
    it = crowded()
    [evicted] = deeds(it.comes("realtime"))
    assert isinstance(evicted, Reject)
    assert (evicted.ticket_id, evicted.reason) == (4, Reason.EVICTED)
    assert it.counts("batch")[3] == {"shed": 1}
    assert ids(it.comes("normal")) == [2]
    assert ids(it.comes("realtime")) == [7]


@pytest.mark.parametrize("bins", [(0, 1), (1, 0)])
@pytest.mark.parametrize("came_s", [(1.0, 2.0), (1.0, 1.0)])
def test_the_newest_is_evicted_whichever_bin_it_waits_in(bins: tuple[int, int], came_s: tuple[float, float]) -> None:
    """Of one class in two bins the later one goes; of two that came at the same time the one that came second."""
    preset = small_preset()
    room = WaitQueue(preset.classes, preset.queue, [Lane(make_order(preset.ordering, preset.classes)) for _ in "ab"])
    for number, (where, now_s) in enumerate(zip(bins, came_s, strict=True), 1):
        room.push(Ticket(number, "batch", now_s), "batch", room.lanes[where], 1.0, now_s)
    worst = room.worst_below("realtime")
    assert worst is not None
    assert worst.id == 2


@pytest.mark.parametrize("bins", [(0, 1), (1, 0)])
def test_the_least_urgent_is_evicted_whichever_bin_it_waits_in(bins: tuple[int, int]) -> None:
    """The class counts before the time, also between bins."""
    preset = small_preset()
    room = WaitQueue(preset.classes, preset.queue, [Lane(make_order(preset.ordering, preset.classes)) for _ in "ab"])
    for number, (where, name) in enumerate(zip(bins, ("batch", "normal"), strict=True), 1):
        room.push(Ticket(number, name, float(number)), name, room.lanes[where], 1.0, float(number))
    worst = room.worst_below("realtime")
    assert worst is not None
    assert worst.class_name == "batch"


@pytest.mark.parametrize("name", ["batch", "normal"])
def test_an_equal_evicts_no_request(name: str) -> None:
    """Only a strictly more urgent arrival makes room: among equals, the earlier one stays."""
    it = WatchedDesk(small_preset(1, queue={"evict": True, "max_waiting": 2}))
    for _ in range(3):
        it.comes("normal")
    [refused] = deeds(it.comes(name))
    assert isinstance(refused, Reject)
    assert (refused.ticket_id, refused.reason) == (4, Reason.QUEUE_FULL)


def test_no_request_is_evicted_where_the_preset_says_no() -> None:
    """evict = false: first come keeps its place."""
    it = crowded(evict=False)
    assert ids(it.comes("realtime")) == [6]
    assert it.counts("batch")[1] == 2


def test_as_many_are_evicted_as_it_takes_and_no_more() -> None:
    """An arrival of 250 tokens in a queue of 400: the least urgent three make room, the most urgent of the waiting ones
    stays."""
    it = crowded(max_waiting_tokens=400)
    assert ids(it.comes("realtime", prompt_tokens=250)) == [4, 2, 5]
    assert it.reading.waiting_tokens == 350


USELESS: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "larger than the whole queue": ({"max_waiting_tokens": 400}, {"prompt_tokens": 401}),
    "those below it are not enough": ({"max_waiting_tokens": 400}, {"name": "normal", "prompt_tokens": 201}),
    "will not wait anyway": ({}, {"may_wait": False}),
}


@pytest.mark.parametrize(("bounds", "arrival"), USELESS.values(), ids=USELESS)
def test_no_request_is_evicted_when_it_would_not_help(bounds: dict[str, int], arrival: dict[str, Any]) -> None:
    """If the arrival would be refused all the same, every ticket keeps its place."""
    it = crowded(**bounds)
    assert ids(it.comes(**({"name": "realtime"} | arrival))) == [6]
    assert it.desk.ledger.queued == 4


def test_a_full_class_is_not_helped_by_evicting_others() -> None:
    """The bound of the arrival's own class is met: a place in the queue is no use to it."""
    classes = {"realtime": terms(3, places=1), "batch": terms(1)}
    it = WatchedDesk(small_preset(1, classes=classes, queue={"evict": True, "max_waiting": 3}))
    for name in ("batch", "batch", "batch", "realtime"):
        it.comes(name)
    [refused] = deeds(it.comes("realtime"))
    assert isinstance(refused, Reject)
    assert (refused.ticket_id, refused.reason) == (5, Reason.CLASS_QUEUE_FULL)


def test_a_request_that_may_not_wait_is_seated_or_refused_at_once() -> None:
    """may_wait = false: a free seat is taken, none is a refusal of its own, and nothing is left behind."""
    it = WatchedDesk(small_preset(1))
    assert dispatched(it.comes(may_wait=False)) == [1]
    [refused] = deeds(it.comes(may_wait=False))
    assert isinstance(refused, Reject)
    assert (refused.ticket_id, refused.reason) == (2, Reason.NO_FREE_SEAT)
    assert it.counts() == (2, 0, 1, {"rejected_limit": 1})
    assert deeds(it.leaves(1)) == []
    it.oracle.check(it.now_s)


def measured(*, running: int = 1, **queue: Any) -> WatchedDesk:
    """A desk with one seat that has learnt: every request takes a second, its first token half a second."""
    it = WatchedDesk(small_preset(running, most_waiting=100, queue=queue))
    for _ in range(200):
        it.comes(prompt_tokens=100, max_tokens=10)
        it.passes(0.5)
        it.token(it.arrived)
        it.passes(0.5)
        it.oracle.left(it.arrived, Ending.COMPLETED)
        it.does("reseat", it.arrived, 0)
        it.oracle.follow(it.desk.leave(it.arrived, Ending.COMPLETED, it.now_s, Usage(100, 10)), it.now_s)
    return it


def test_only_a_request_that_cannot_be_served_in_time_is_refused_at_once() -> None:
    """With a line of ten seconds, two seconds of patience are refused on arrival, a minute waits."""
    it = measured(refuse_infeasible=True)
    for _ in range(11):
        it.comes(asked=Timeouts(queue_s=50.0), prompt_tokens=100, max_tokens=10)
    [refused] = deeds(it.comes(asked=Timeouts(queue_s=2.0)))
    assert isinstance(refused, Reject)
    assert refused.reason is Reason.DEADLINE_INFEASIBLE
    assert it.counts()[3]["rejected_limit"] == 1
    assert deeds(it.comes("realtime", asked=Timeouts(queue_s=9.0))) == []


@pytest.mark.parametrize(
    ("running", "seats", "patience_s", "refused"),
    [(1, 1, 4.0, False), (1, 9, 4.0, False), (8, 1, 0.5, False), (8, 8, 0.5, True), (8, 9, 0.5, True)],
)
def test_what_an_arrival_asks_for_itself_counts_for_its_wait(
    running: int, seats: int, patience_s: float, refused: bool
) -> None:
    """A seat comes free in a second, or the first of eight in an eighth. What is wider than all needs all."""
    it = measured(running=running, refuse_infeasible=True)
    for _ in range(running):
        it.comes(prompt_tokens=100, max_tokens=10)
    found = [one for one in it.comes(seats=seats, asked=Timeouts(queue_s=patience_s)) if isinstance(one, Reject)]
    assert [one.reason for one in found] == [Reason.DEADLINE_INFEASIBLE] * refused


def test_an_infeasible_arrival_waits_where_the_preset_says_so() -> None:
    """refuse_infeasible = false: the same arrival waits until its deadline."""
    it = measured()
    for _ in range(9):
        it.comes(prompt_tokens=100, max_tokens=10)
    assert deeds(it.comes(asked=Timeouts(queue_s=2.0))) == []


def test_no_request_is_infeasible_before_anything_is_known() -> None:
    """A desk that has served no request yet predicts nothing."""
    it = WatchedDesk(small_preset(1, queue={"refuse_infeasible": True}))
    for _ in range(50):
        assert not any(isinstance(one, Reject) for one in it.comes(asked=Timeouts(queue_s=0.01)))


@pytest.mark.parametrize("shed", [True, False])
def test_a_request_too_late_for_a_first_token_leaves_its_seat_to_the_next(shed: bool) -> None:
    """At its turn the one whose first token would come too late is dropped for one that can make use of the seat."""
    it = measured(shed_unreachable=shed)
    it.comes(prompt_tokens=100)
    it.comes(prompt_tokens=100, asked=Timeouts(first_token_s=1.2))
    it.comes(prompt_tokens=100)
    first = it.arrived - 2
    it.passes(1.0)
    effects = it.leaves(first)
    assert dispatched(effects) == [first + 2 if shed else first + 1]
    refused = [(one.ticket_id, one.reason) for one in effects if isinstance(one, Reject)]
    assert refused == ([(first + 1, Reason.DEADLINE_UNREACHABLE)] if shed else [])


def test_one_is_shed_for_each_that_goes() -> None:
    """Two free seats, and two of four are doomed: each seat costs one of them its place."""
    it = measured(running=2, shed_unreachable=True)
    it.comes(seats=2, prompt_tokens=100)
    for queue_s in (None, 1.2, None, 1.2, None):
        it.comes(prompt_tokens=100, asked=Timeouts(first_token_s=queue_s))
    it.passes(1.0)
    first = it.arrived - 4
    effects = it.leaves(first - 1)
    assert dispatched(effects) == [first, first + 2]
    refused = [(one.ticket_id, one.reason) for one in effects if isinstance(one, Reject)]
    assert refused == [(first + 1, Reason.DEADLINE_UNREACHABLE)]
    effects = it.leaves(first)
    assert dispatched(effects) == [first + 4]
    assert [one.ticket_id for one in effects if isinstance(one, Reject)] == [first + 3]


@pytest.mark.parametrize("patience_s", [1.0, 50.0])
def test_no_request_is_evicted_for_one_that_could_not_be_served_in_time(patience_s: float) -> None:
    """An arrival with four seconds of queue before it evicts only where it can wait so long."""
    it = measured(refuse_infeasible=True, evict=True, max_waiting=5)
    for name in ("normal", "normal", "normal", "normal", "batch", "batch"):
        it.comes(name, prompt_tokens=100, max_tokens=10)
    [refused] = deeds(it.comes(prompt_tokens=100, asked=Timeouts(queue_s=patience_s)))
    assert isinstance(refused, Reject)
    evicts = patience_s > 4.0
    assert (refused.ticket_id, refused.reason) == (
        (it.arrived - 1, Reason.EVICTED) if evicts else (it.arrived, Reason.QUEUE_FULL)
    )


@pytest.mark.parametrize("measure", ["prompt_tokens", "prompt_bytes"])
def test_an_arrival_evicts_by_what_those_below_really_hold(measure: str) -> None:
    """Of 400 the batch work holds 100: with 100 a realtime arrival gets in, with 101 none is evicted for it."""
    bound = {"prompt_tokens": "max_waiting_tokens", "prompt_bytes": "max_waiting_bytes"}[measure]
    for size, expected in ((101, [5]), (100, [2])):
        it = WatchedDesk(small_preset(1, queue={"evict": True, bound: 400}))
        it.comes("realtime")
        for name, held in (("batch", 100), ("realtime", 100), ("realtime", 200)):
            it.comes(name, **{measure: held})
        assert ids(it.comes("realtime", **{measure: size})) == expected


def test_the_seats_of_a_tenant_are_counted_one_by_one() -> None:
    """The waiting tickets, in all and of one tenant, in seats; nothing is kept of a tenant without tickets."""
    preset = small_preset()
    room = WaitQueue(preset.classes, preset.queue, [Lane(make_order(preset.ordering, preset.classes))])
    tickets = [Ticket(number, "normal", 0.0, tenant=tenant, seats=2) for number, tenant in enumerate("aab")]
    for ticket in tickets:
        room.push(ticket, "normal", room.lanes[0], 1.0, 0.0)
    assert [room.seats_in("normal", tenant) for tenant in (None, "a", "b", "c")] == [6, 4, 2, 0]
    room.remove(tickets[0], "normal", room.lanes[0], 0.0)
    assert [room.seats_in("normal", tenant) for tenant in (None, "a", "b")] == [4, 2, 2]
    for ticket in tickets[1:]:
        room.remove(ticket, "normal", room.lanes[0], 0.0)
    assert ([room.seats_in("normal", tenant) for tenant in (None, "a", "b")], room._by_tenant) == ([0, 0, 0], {})


def test_the_last_one_waiting_is_never_shed() -> None:
    """With no other request for the seat it is dispatched: a wrong prediction can be found out."""
    it = measured(shed_unreachable=True)
    it.comes(prompt_tokens=100)
    it.comes(prompt_tokens=100, asked=Timeouts(first_token_s=1.2))
    it.passes(1.0)
    assert dispatched(it.leaves(it.arrived - 1)) == [it.arrived]
