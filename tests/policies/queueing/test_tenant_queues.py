"""A full queue, shared between tenants: which waiting ticket gives its place to another tenant's."""

from __future__ import annotations

from collections import Counter
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from small_presets import small_preset, terms
from watched_desk import WatchedDesk, deeds, ids

from headway_policies import Desk, Outcome, Reason, Recall, Reject, Requeue, Ticket
from headway_policies.queueing import Lane, WaitQueue, make_order
from headway_policies.queueing.tenant_queues import TenantQueues

SHARES = {"a": 1.0, "b": 1.0, "c": 3.0, "d": 0.5}


def shared(places: int = 4, *, inside: str = "fair", **more: Any) -> WatchedDesk:
    """A seat that is taken, and a class with so many places."""
    queue = {"evict": True} | more.pop("queue", {})
    classes = {"normal": terms(2, places=places, **more), "batch": terms(1)}
    it = WatchedDesk(small_preset(1, inside=inside, classes=classes, queue=queue))
    it.comes(tenant="first")
    return it


def fill(it: WatchedDesk, number: int = 4, tenant: str = "loud", **more: Any) -> None:
    """So many of one tenant come and wait."""
    for _ in range(number):
        assert deeds(it.comes(tenant=tenant, **more)) == []


def test_the_newest_of_the_longest_queue_gives_its_place() -> None:
    """In a full queue of its class a tenant gets places of the one that has more; each refusal is as at the arrival."""
    it = shared()
    fill(it)
    [refused] = deeds(it.comes(tenant="loud"))
    assert isinstance(refused, Reject)
    assert (refused.ticket_id, refused.reason) == (6, Reason.CLASS_QUEUE_FULL)
    assert deeds(it.comes(tenant="quiet")) == [Reject(5, refused.reason, refused.retry_after_s)]
    assert deeds(it.comes(tenant="quiet")) == [Reject(4, refused.reason, refused.retry_after_s)]
    ledger = it.desk.ledger.classes["normal"]
    assert (ledger.arrived, ledger.queued, ledger.in_flight) == (8, 4, 1)
    assert (ledger.outcomes, ledger.refusals) == ({Outcome.REJECTED_FULL: 3}, {Reason.CLASS_QUEUE_FULL: 3})
    it.oracle.check(it.now_s)


def test_no_place_goes_back_and_forth() -> None:
    """Of two tenants with as many waiting, within one, each is refused as it arrives."""
    it = shared()
    fill(it)
    for _ in range(2):
        it.comes(tenant="quiet")
    for tenant in ("loud", "quiet", "loud", "quiet"):
        assert ids(it.comes(tenant=tenant)) == [it.arrived]


def test_one_tenant_alone_keeps_its_places() -> None:
    """Without other tenants a full queue refuses what arrives."""
    it = shared()
    fill(it, tenant="")
    assert ids(it.comes()) == [it.arrived]


@pytest.mark.parametrize("inside", ["fair", "prefix"])
def test_a_tenant_has_places_by_its_share(inside: str) -> None:
    """Of eight places a tenant with three times the share of the other gets six."""
    it = shared(8, inside=inside)
    fill(it, 8)
    refused = [ids(it.comes(tenant="quiet", share=3.0))[0] for _ in range(8)]
    assert refused == [9, 8, 7, 6, 5, 4, 16, 17]
    waiting = Counter(ticket.tenant for ticket, _ in it.desk.waiting())
    assert waiting == {"loud": 2, "quiet": 6}


UNCHANGED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "first come, first served": ({"inside": "fifo"}, {}),
    "no ticket is evicted": ({"queue": {"evict": False}}, {}),
    "will not wait": ({}, {"may_wait": False}),
    "it would have more": ({"max_waiting_tokens": 400}, {"prompt_tokens": 301}),
    "it would have more over all": ({"queue": {"max_waiting_bytes": 4000}}, {"prompt_bytes": 3001}),
}


@pytest.mark.parametrize(("preset", "arrival"), UNCHANGED.values(), ids=UNCHANGED)
def test_all_keep_their_places_where_it_is_no_use(preset: dict[str, Any], arrival: dict[str, Any]) -> None:
    """The arrival is refused in a full queue, and no ticket for it."""
    it = shared(**preset)
    fill(it, prompt_tokens=100, prompt_bytes=1000)
    assert ids(it.comes(tenant="quiet", **arrival)) == [it.arrived]
    assert it.desk.ledger.queued == 4


def test_a_place_that_is_large_enough_is_given() -> None:
    """Prompt tokens and bytes are bounded, over all and in the class: one for one, with what is free beside it."""
    it = shared(max_waiting_tokens=400, queue={"max_waiting_bytes": 4000})
    fill(it, prompt_tokens=90, prompt_bytes=900)
    assert ids(it.comes(tenant="quiet", prompt_tokens=130, prompt_bytes=1300)) == [5]


@pytest.mark.parametrize("over_all", [False, True])
@pytest.mark.parametrize("unit", ["tokens", "bytes"])
def test_what_is_bounded_is_what_is_shared(unit: str, over_all: bool) -> None:
    """Of so many prompt tokens or bytes each of two tenants gets half, in prompts of whatever length."""
    bounds = {f"max_waiting_{unit}": 1000}
    it = shared(100, **({"queue": bounds} if over_all else bounds))

    def comes(tenant: str, size: int) -> list[int]:
        return ids(it.comes(tenant=tenant, **{f"prompt_{unit}": size}))

    fill(it, 10, **{f"prompt_{unit}": 100})
    assert comes("quiet", 250) == [11, 10, 9]
    assert comes("quiet", 200) == [8, 7]
    assert comes("quiet", 100) == [it.arrived]
    assert comes("loud", 100) == [it.arrived]
    waiting = Counter[str]()
    for ticket, _ in it.desk.waiting():
        waiting[ticket.tenant] += getattr(ticket, f"prompt_{unit}")
    assert waiting == {"loud": 500, "quiet": 450}
    it.oracle.check(it.now_s)


def test_one_arrival_takes_a_bounded_number_of_places() -> None:
    """However long its prompt is: the answer to an arrival costs no more in a longer queue."""
    it = shared(100, max_waiting_tokens=100)
    fill(it, 100, prompt_tokens=1)
    assert ids(it.comes(tenant="quiet", prompt_tokens=65, share=9.0)) == [it.arrived]
    assert len(ids(it.comes(tenant="quiet", prompt_tokens=64, share=9.0))) == 64


def test_the_whole_queue_is_shared_as_well() -> None:
    """Where all classes together are full and no less urgent ticket waits, it is the same, for that reason."""
    it = shared(9, queue={"max_waiting": 4})
    fill(it)
    [refused] = deeds(it.comes(tenant="quiet"))
    assert isinstance(refused, Reject)
    assert (refused.ticket_id, refused.reason) == (5, Reason.QUEUE_FULL)


def test_a_less_urgent_ticket_goes_before_one_of_the_same_class() -> None:
    """Where all classes together are full, the least urgent one still loses its places first."""
    it = shared(9, queue={"max_waiting": 4})
    it.comes("batch", tenant="quiet")
    fill(it, 3)
    [refused] = deeds(it.comes(tenant="quiet"))
    assert isinstance(refused, Reject)
    assert (refused.ticket_id, refused.reason) == (2, Reason.EVICTED)


def test_a_ticket_that_made_room_keeps_its_place() -> None:
    """It ran before: the newest of its tenant that never did goes instead, and it does not count."""
    classes = {"realtime": terms(3), "normal": terms(2, places=4)}
    it = WatchedDesk(small_preset(1, inside="fair", classes=classes, queue={"evict": True, "make_room": True}))
    it.comes(tenant="loud")
    assert Recall(1) in deeds(it.comes("realtime"))
    fill(it, 3)
    assert ids(it.comes(tenant="quiet")) == [5]
    assert ids(it.comes(tenant="quiet")) == [7], "two to one, without the one that ran"
    assert {ticket.id for ticket, _ in it.desk.waiting()} == {1, 3, 4, 6}


def test_a_ticket_of_a_dead_engine_keeps_its_place() -> None:
    """It waits for another engine: it gives its place to no arrival, also after a switch to another order."""
    it = shared(2)
    assert Requeue(1) in deeds(it.does("engine_restarting", {1}))
    ageing = it.desk.preset.ordering.model_copy(update={"between": "ageing"})
    for preset in (it.desk.preset, it.desk.preset.model_copy(update={"ordering": ageing})):
        it.does("switch", preset)
        while it.desk.ledger.queued < 2:
            it.comes(tenant="first")
        assert ids(it.comes(tenant="quiet")) == [it.arrived], "one for each, without the one that ran"


def test_a_ticket_that_is_set_aside_may_give_its_place() -> None:
    """It waits for its adapter, in no order; it still has a place in the queue."""
    preset = small_preset(2, inside="fair", classes={"normal": terms(2, places=3)}, queue={"evict": True})
    desk = Desk(preset, most_adapters=1)
    tickets = [Ticket(number, "normal", 0.0, tenant="loud", adapter=name) for number, name in enumerate("xyyy")]
    for ticket in tickets:
        desk.arrive(ticket, 0.0)
    assert desk.read(0.0).limit_reason == "adapter"
    [refused, *_] = desk.arrive(Ticket(9, "normal", 0.0, tenant="quiet", adapter="y"), 0.0)
    assert isinstance(refused, Reject)
    assert (refused.ticket_id, refused.reason, desk.ledger.queued) == (3, Reason.CLASS_QUEUE_FULL, 3)


def test_a_ticket_that_was_set_aside_and_came_back_may_give_its_place() -> None:
    """It has its place in the order again, and was never dispatched."""
    preset = small_preset(inside="fair", classes={"normal": terms(2, places=2)})
    room = WaitQueue(preset.classes, preset.queue, [Lane(make_order(preset.ordering, preset.classes))])
    tickets = [Ticket(number, "normal", 0.0, tenant="loud", adapter="x") for number in (1, 2)]
    for ticket in tickets:
        room.push(ticket, "normal", room.lanes[0], 1.0, 0.0)
    room.set_aside(tickets[1], "normal", room.lanes[0], 0.0)
    room.rejoin(tickets[1], "normal", room.lanes[0], 1.0, 0.0)
    assert room.giving_place_to(Ticket(3, "normal", 0.0, tenant="quiet")) == [tickets[1]]


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(sorted(SHARES)), st.integers(0, 99)), max_size=200))
def test_whichever_come_and_go_the_longest_queue_is_known(history: list[tuple[bool, str, int]]) -> None:
    """At each time, for each tenant: the newest of a longest queue gives its place if that queue is longer than its
    own with one more; nothing is kept of a tenant without tickets.
    """
    queues, listed = TenantQueues(), dict[int, Ticket]()
    for number, (comes, tenant, which) in enumerate(history):
        if comes or not listed:
            ticket = Ticket(number, "normal", 0.0, tenant=tenant, share=SHARES[tenant])
            listed[number] = ticket
            queues.add(ticket)
        else:
            ticket = listed.pop(sorted(listed)[which % len(listed)])
            queues.discard(ticket)
            queues.discard(ticket)  # it is not listed any more: no effect
        waiting = Counter(one.tenant for one in listed.values())
        length = {name: waiting[name] / SHARES[name] for name in SHARES}
        assert len(queues) == len(waiting)
        assert len(queues._heap) <= 2 * len(SHARES) + 65
        for name in SHARES:
            found = next(queues.giving_place_to(Ticket(-1, "normal", 0.0, tenant=name, share=SHARES[name])), None)
            gives = max(length.values()) > (waiting[name] + 1) / SHARES[name]
            assert (found is not None) == gives
            if found is not None:
                assert length[found.tenant] == max(length.values())
                assert found.id == max(one.id for one in listed.values() if one.tenant == found.tenant)
