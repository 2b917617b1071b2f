"""Tickets of LoRA adapters, of which the engine runs only so many different ones at once."""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import Any

import pytest
from closed_loop import ClosedLoop, Record
from hypothesis import given
from hypothesis import strategies as st
from small_presets import small_preset, terms
from tiers import LONG
from watched_desk import dispatched

from headway_policies import Desk, Effect, Ending, Outcome, Preset, Reason, Reject, Ticket, WakeAt
from headway_policies.desk.dispatch import SLICE
from headway_policies.queueing.adapters import PATIENCE

ENDLESS = {name: terms(rank, queue_s=None, total_s=None) for rank, name in enumerate(("batch", "normal", "realtime"))}
RUNS_S = 1.0
EPSILON_S = 1e-6


class Serving:
    """A desk in front of an engine that runs one adapter at a time, unless it is said how many."""

    def __init__(self, preset: Preset, most: int | None = 1) -> None:
        self.desk, self.now_s, self.made = Desk(preset, most_adapters=most), 0.0, 0

    def comes(self, adapter: str | None = None, class_name: str = "normal", **more: Any) -> list[Effect]:
        self.made += 1
        return self.desk.arrive(Ticket(self.made, class_name, self.now_s, adapter=adapter, **more), self.now_s)

    def goes(self, *adapters: str | None) -> list[bool]:
        """Whether each goes at once, one after another."""
        return [dispatched(self.comes(adapter)) == [self.made] for adapter in adapters]

    def leaves(self, *ticket_ids: int) -> list[int]:
        """The tickets that go because these have ended, in their order."""
        ended = [self.desk.leave(ticket_id, Ending.COMPLETED, self.now_s) for ticket_id in ticket_ids]
        return [ticket_id for effects in ended for ticket_id in dispatched(effects)]


def test_a_ticket_of_another_adapter_takes_no_seat() -> None:
    """Those of the adapter that runs, and of the model itself, pass it; the reason says what it waits for."""
    it = Serving(small_preset(4))
    assert it.goes("a", "b", None, "a") == [True, False, True, True]
    assert it.desk.seats_taken == 3
    assert it.desk.read(0.0).limit_reason == "adapter"
    assert it.desk.read(0.0).oldest_wait_s["normal"] == 0.0
    assert it.leaves(1) == []
    assert it.leaves(4) == [2]
    assert it.desk.read(0.0).limit_reason != "adapter"


def test_none_passes_a_ticket_that_has_its_place_and_waits_for_seats() -> None:
    """A wide ticket set aside would wait for ever behind those that come later and need one seat each."""
    it = Serving(small_preset(4))
    assert it.goes("a", None) == [True, True]
    assert dispatched(it.comes("b", seats=4)) == []
    assert it.goes(None) == [True]
    assert it.leaves(1) == []
    assert it.goes(None, None) == [False, False]
    assert it.leaves(2, 4) == [3]


@pytest.mark.parametrize("most", [2, None])
def test_as_many_adapters_run_as_the_engine_can(most: int | None) -> None:
    """Without a bound all go."""
    assert Serving(small_preset(8), most).goes("a", "b", "a", "c", "b") == [True, True, True, most is None, True]


def test_the_tickets_of_an_adapter_go_together() -> None:
    """When a place is free the first that was set aside has it, and those of its adapter follow in their order."""
    it = Serving(small_preset(4))
    assert it.goes("a", "b", "c", "b") == [True, False, False, False]
    assert it.leaves(1) == [2, 4]
    assert it.leaves(2, 4) == [3]


def test_the_most_urgent_that_is_aside_has_the_free_place() -> None:
    """Whatever was set aside before it."""
    it = Serving(small_preset(4))
    it.comes("a")
    it.comes("b", "batch")
    it.comes("c", "realtime")
    assert it.leaves(1) == [3]
    assert it.leaves(3) == [2]


def test_one_that_is_aside_goes_before_those_that_wait_for_a_seat() -> None:
    """Its turn has been; the others of its adapter wait in their order again."""
    it = Serving(small_preset(2))
    assert it.goes("a", "b", "b", None, None, None) == [True, False, False, True, False, False]
    assert it.leaves(1) == [2]
    assert it.leaves(4, 2) == [3, 5]


def test_those_aside_count_in_the_bounds_of_the_queue() -> None:
    """They are refused, evicted, and gone as any that wait; only the seats that they want are not counted."""
    it = Serving(small_preset(4, most_waiting=2, queue={"evict": True}))
    it.comes("a")
    it.comes("b", "batch")
    it.comes("b", "batch")
    reading = it.desk.read(0.0)
    assert (it.desk.ledger.queued, reading.wanted_seats) == (2, 1)
    full = it.comes("b", "batch")
    assert [effect.reason for effect in full if isinstance(effect, Reject)] == [Reason.QUEUE_FULL]
    evicted = it.comes("b", "realtime")
    assert [effect.ticket_id for effect in evicted if isinstance(effect, Reject)] == [3]
    assert it.leaves(2) == []  # its client has gone
    assert it.leaves(1) == [5]
    assert it.leaves(5) == []
    assert it.desk.ledger.queued == it.desk.ledger.in_flight == 0


def test_time_runs_out_for_one_that_is_aside() -> None:
    """Its deadline is that of any that waits."""
    it = Serving(small_preset(4))
    it.goes("a", "b")
    it.desk.tick(10.0)
    assert it.desk.ledger.classes["normal"].outcomes == {Outcome.EXPIRED_QUEUED: 1}


@pytest.mark.parametrize("between", ["strict", "weighted"])
def test_a_switch_keeps_those_aside_and_their_place(between: str) -> None:
    """Also where it brings another order; what runs is known as before."""
    it = Serving(small_preset(4))
    it.goes("a", "b", "c", "b")
    assert dispatched(it.desk.switch(small_preset(5, between=between), 0.0)) == []
    assert it.goes("b", None) == [False, True]
    assert it.leaves(1) == [2, 4, 5]
    assert it.leaves(2, 4, 5) == [3]


def test_a_drain_refuses_those_aside() -> None:
    """As all that wait."""
    it = Serving(small_preset(4))
    it.goes("a", "b", "c")
    assert sum(isinstance(effect, Reject) for effect in it.desk.drain(0.0)) == 2
    assert it.desk.ledger.queued == 0


def test_an_engine_that_is_gone_runs_no_adapter() -> None:
    """The next one begins with any."""
    it = Serving(small_preset(4))
    it.goes("a", "b", "b")
    it.desk.engine_restarting((), 0.0)
    assert dispatched(it.desk.engine_back(0.0)) == [2, 3]


def test_a_batch_has_as_many_adapters_as_the_engine_can() -> None:
    """The others are in the next batch, before those that came later."""
    it = Serving(small_preset(3, batching={"strategy": "static"}))
    assert it.goes("a", "b", "a") == [False] * 3
    assert it.desk.seats_taken == 2
    it.comes("a")
    it.comes("b")
    assert it.leaves(1, 3) == [2, 5]
    it.comes("a")
    it.comes("a")
    assert it.leaves(2, 5) == [4, 6, 7]


def test_the_next_batch_begins_with_those_that_were_set_aside_first() -> None:
    """Of several adapters."""
    it = Serving(small_preset(3, batching={"strategy": "static"}))
    it.goes("a", "b", "c", "b")
    assert it.leaves(1) == [2, 4]


def test_a_ticket_that_is_aside_is_not_refused_for_what_passes_it() -> None:
    """A less urgent one that goes meanwhile counts as passing it beside the order; and late as it is, it goes when its
    place is free.
    """
    classes = {name: terms(rank, ttft_slo_s=1.0, burst_s=0.5) for rank, name in enumerate(("batch", "normal"))}
    it = Serving(small_preset(3, classes=classes))
    it.comes("a")
    it.comes("b", "normal")
    it.comes(None, "batch")
    it.comes(None, "batch")
    assert it.desk._objectives.passed_over("normal", 0.0)
    for _ in range(6):
        it.now_s += 0.5
        it.comes(None, "normal")
    assert "normal" in it.desk.read(it.now_s).standing_queues
    assert it.leaves(1) == [2]


def test_a_late_ticket_that_was_set_aside_stays_behind_those_in_time() -> None:
    """The first of its adapter goes, its turn has been; another one takes its place among the late ones again."""
    it = Serving(small_preset(2, classes={"normal": terms(1, ttft_slo_s=1.0)}))
    assert it.goes(None, None, "b", "b", None) == [True, True, False, False, False]
    it.now_s = 0.9
    assert it.leaves(2) == [5]  # both of the adapter are late
    assert it.goes("a") == [False]
    assert it.leaves(5) == [6]
    assert it.leaves(1) == []  # both are set aside
    assert it.goes(None, None) == [True, False]
    assert it.leaves(6) == [4]
    assert it.leaves(7) == [8]
    assert it.leaves(8) == [3]


@pytest.mark.parametrize(
    ("between", "inside", "order"),
    [
        ("strict", "fifo", [3, 4, 6]),
        ("strict", "fair", [3, 4, 6]),
        ("strict", "hrrn", [3, 4, 6]),
        ("headway_policies.queueing.strict:StrictOrder", "fifo", [6, 3, 4]),
        ("strict", "headway_policies.queueing.disciplines:Fifo", [6, 3, 4]),
    ],
)
def test_those_that_were_set_aside_come_back_in_their_order(between: str, inside: str, order: list[int]) -> None:
    """Before all that came later where the order says so; a custom one gets them as new, in the order in which they
    were set aside.
    """
    it = Serving(small_preset(2, between=between, inside=inside))
    for at_s, adapter in enumerate(("a", "b", "b", "b", None, None)):
        it.now_s = at_s / 10
        it.comes(adapter)
    assert it.leaves(1) == [2]
    found, running = [], 5
    while left := it.leaves(running):
        found += left
        running = left[0]
    assert found == order


def test_very_many_that_were_set_aside_come_back_in_slices() -> None:
    """No event puts back more than a slice, each asks for the next one at once, and their order is kept."""
    many = 3 * SLICE
    classes = {"normal": terms(1, places=2 * many, queue_s=None, total_s=None)}
    it = Serving(small_preset(2, most_waiting=2 * many, classes=classes))
    it.goes("a", *["b"] * many)
    aside = it.desk._scheduler.queue.adapters.lines
    left, effects = many, it.desk.leave(1, Ending.COMPLETED, it.now_s)
    sent = dispatched(effects)
    assert aside
    while aside:
        assert left - len(aside["b"]) <= SLICE + len(dispatched(effects))
        assert effects[-1] == WakeAt(it.now_s)
        left, effects = len(aside["b"]), it.desk.tick(it.now_s)
        sent += dispatched(effects)
    sent += dispatched(it.desk.tick(it.now_s))
    for number in range(2, many + 2):
        sent += it.leaves(number)
    assert sent == list(range(2, many + 2))


def loop_of(preset: Preset, most: int) -> ClosedLoop:
    """A loop whose requests run for a second, more or less, which is known."""
    random = Random(1)
    loop = ClosedLoop(preset, lambda record: random.uniform(0.5, 1.0) * RUNS_S, most)
    for _ in range(preset.batching.seats):
        loop.ask("normal")
    loop.run(RUNS_S)
    return loop


def keep_asking(loop: ClosedLoop, adapter: str | None, class_name: str = "normal", gap_s: float = 0.0) -> None:
    """A client that asks again as soon as it has an answer, or a little later."""
    loop.ask(
        class_name, lambda record: loop.at(loop.now_s + gap_s, lambda: keep_asking(loop, adapter, class_name, gap_s)),
        adapter=adapter,
    )  # fmt: skip


@given(data=st.data(), most=st.integers(1, 3), adapters=st.integers(2, 6))
def test_no_adapter_is_passed_over_for_ever(data: st.DataObject, most: int, adapters: int) -> None:
    """However the others keep coming, a ticket whose turn has come waits for no longer than the patience and, for each
    adapter that may be due before its own, until that has had its place for a while and its last requests have run.
    """
    seats = 24
    loop = loop_of(small_preset(seats, classes=ENDLESS), most)
    names = [f"adapter {number}" for number in range(adapters)]
    floods = [(name, 0.0) for name in names[:most]] * (seats // 2 // most)
    others = st.tuples(st.sampled_from([*names, None]), st.floats(0, 3))
    for number, (name, gap_s) in enumerate(floods + data.draw(st.lists(others, max_size=seats // 2))):
        loop.at(loop.now_s + number / 7, partial(keep_asking, loop, name, gap_s=gap_s))
    loop.run(120.0 if LONG else 60.0)
    bound_s = (PATIENCE + 2 * adapters) * RUNS_S
    sent = [record for record in loop.records if record.dispatched_s is not None]
    late = [record for record in sent if record.wait_s > bound_s + EPSILON_S]
    waiting = [ticket for ticket, _ in loop.desk.waiting() if loop.now_s - ticket.arrived_s > bound_s + EPSILON_S]
    assert (late, waiting) == ([], [])


@given(
    seed=st.integers(0, 2**32),
    most=st.integers(1, 3),
    seats=st.integers(1, 8),
    between=st.sampled_from(["strict", "weighted", "ageing"]),
    inside=st.sampled_from(["fifo", "fair", "edf"]),
)
def test_any_traffic_keeps_to_the_adapters_of_the_engine(
    seed: int, most: int, seats: int, between: str, inside: str
) -> None:
    """Never do more different ones run; while a seat is free only those wait whose adapter may not go; and the books
    balance when all have left.
    """
    random = Random(seed)
    preset = small_preset(seats, between=between, inside=inside)
    loop = ClosedLoop(preset, lambda record: random.uniform(0.1, 2.0), most)
    for _ in range(120 if LONG else 40):
        adapter = random.choice([None, "a", "b", "c", "d"])
        width = random.choice([1, 1, 1, 2]) if seats > 1 else 1
        name = random.choice(["realtime", "normal", "batch"])
        loop.ask(name, adapter=adapter, seats=width, tenant=random.choice("xy"), prompt_tokens=10)
        holds(loop, most)
        loop.run(loop.now_s + random.expovariate(seats))
        holds(loop, most)
    loop.run(loop.now_s + 100.0)
    assert loop.desk.ledger.queued == loop.desk.ledger.in_flight == 0
    assert all(counts.balanced for counts in loop.desk.ledger.classes.values())
    reading = loop.desk.read(loop.now_s)
    assert (reading.wanted_seats, reading.waiting_tokens) == (0, 0)


def holds(loop: ClosedLoop, most: int) -> None:
    """What is so after each event."""
    running = Counter(record.ticket.adapter for record in loop.desk.dispatched() if record.ticket.adapter)
    assert len(running) <= most
    if loop.desk.limit - loop.desk.seats_taken < 2:  # some may wait for two seats
        return
    waiting = {ticket.adapter for ticket, _ in loop.desk.waiting()}
    assert None not in waiting
    assert not waiting or len(running) == most


def ended(loop: ClosedLoop, adapter: str) -> list[Record]:
    """The requests of an adapter that were answered."""
    return [record for record in loop.records if record.ticket.adapter == adapter and record.completed]


def test_a_flood_of_one_adapter_leaves_the_other_its_turn() -> None:
    """Both are served, though the flood is never over; those of the flood lose little by it."""
    loop = loop_of(small_preset(8, classes=ENDLESS), 1)
    for number in range(8):
        loop.at(loop.now_s + number / 8, lambda: keep_asking(loop, "flood"))
    keep_asking(loop, "other")
    loop.run(200.0)
    assert len(ended(loop, "other")) >= 200 / (PATIENCE + 3)
    assert len(ended(loop, "flood")) >= 0.7 * 8 * 200
