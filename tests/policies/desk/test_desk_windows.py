"""Batches of the desk: their numbers, the window in which each gathers, and what a switch does to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from small_presets import small_preset, terms
from watched_desk import WatchedDesk, dispatched

from headway_policies import Desk, Dispatch, Ending, Load, Preset, Ticket, Timeouts, WakeAt
from headway_policies.batching.strategy import Batching
from headway_policies.desk.capacity import CapReason
from headway_policies.fallback.rungs import Fallback, Rung
from headway_policies.limits import LimitSettings

WINDOW_OF_1_S = {"strategy": "dynamic", "window_ms": 1000}


def test_batches_are_numbered_one_by_one_and_what_goes_beside_has_none() -> None:
    """1, 2, 3; and 0 for a request in a seat of the bypass."""
    classes = {"realtime": terms(3, may_bypass=True), "batch": terms(1)}
    preset = small_preset(2, classes=classes, batching={"strategy": "static"})
    desk = Desk(preset.model_copy(update={"fallback": Fallback(bypass_seats=1)}))
    numbers: list[int] = []
    for first in (0, 2, 4):
        effects = [*desk.arrive(Ticket(first, "batch", 0.0), 0.0), *desk.arrive(Ticket(first + 1, "batch", 0.0), 0.0)]
        numbers += [one.batch for one in effects if isinstance(one, Dispatch)]
        desk.leave(first, Ending.COMPLETED, 1.0)
        if first < 4:
            desk.leave(first + 1, Ending.COMPLETED, 1.0)
    assert numbers == [1, 1, 2, 2, 3, 3]
    desk.fall_back(frozenset({Rung.BYPASS}), 1.0)
    (beside,) = [one for one in desk.arrive(Ticket(9, "realtime", 1.0), 1.0) if isinstance(one, Dispatch)]
    assert (beside.batch, beside.beside, desk.seats_taken) == (0, True, 2)


def adaptive(seats: int = 4) -> Preset:
    """A window that learns, of a second at the most."""
    return small_preset(seats, batching={"strategy": "dynamic", "window": "adaptive", "window_ms": 1000})


def taught(preset: Preset, gap_s: float) -> Desk:
    """A desk after 30 batches, of one request for one seat and for four in turn: 4 s, and 0.1 s for each seat."""
    desk, now_s = Desk(preset), 100.0
    for number in range(30):
        seats = 4 if number % 2 else 1
        begun_s = now_s
        if not dispatched(desk.arrive(Ticket(number, "normal", now_s, seats=seats), now_s)):
            begun_s = now_s + 1.0
            assert dispatched(desk.tick(begun_s)) == [number]
        desk.leave(number, Ending.COMPLETED, begun_s + 4.0 + 0.1 * seats)
        now_s += gap_s
    return desk


def test_a_desk_without_batches_has_no_window() -> None:
    """0 under the continuous strategy, the length given under a fixed window."""
    assert Desk(small_preset(2, batching={"window_ms": 70})).read(1.0).window_s == 0.0
    assert Desk(small_preset(2, batching={"strategy": "dynamic", "window_ms": 70})).read(1.0).window_s == 0.07


def test_an_adaptive_window_learns_from_the_desk() -> None:
    """The longest before anything is known; then what a batch and a seat cost, and how far apart seats are wanted."""
    assert Desk(adaptive()).read(1.0).window_s == 1.0
    desk = taught(adaptive(), gap_s=8.0)
    learnt: Any = desk._scheduler.window
    assert (learnt._batch.intercept, learnt._batch.slope) == pytest.approx((4.0, 0.1))
    assert learnt._gap_s == pytest.approx(4.0 * (1 + 1 / 4) / 2, rel=0.1)  # of 4 s at the most, for one seat or four
    assert desk.read(1000.0).window_s == 0.0


EVENTS: dict[str, Callable[[WatchedDesk], object]] = {
    "arrive": lambda it: it.comes("batch"),
    "leave": lambda it: it.leaves(2, Ending.CANCELLED),
    "reseat": lambda it: it.does("reseat", 1, 0),
    "resume": lambda it: it.does("resume"),
    "observe": lambda it: it.does("observe", Load(1, 0, 0.5)),
    "switch": lambda it: it.does("switch", it.desk.preset),
    "fall_back": lambda it: it.does("fall_back", frozenset[Rung]()),
    "cap_seats": lambda it: it.does("cap_seats", CapReason.MEMORY, 1.0),
    "warmed_up": lambda it: it.does("warmed_up"),
    "engine_back": lambda it: it.does("engine_back"),
    "first_token": lambda it: it.token(1),
    "tick": lambda it: it.does("tick"),
}


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_whatever_happens_while_a_batch_gathers_it_leaves_in_time(event: Callable[[WatchedDesk], object]) -> None:
    """One batch runs and the next one gathers: when the first has ended, the next leaves at the end of its window."""
    classes = {"normal": terms(2, queue_s=None, total_s=None), "batch": terms(1, queue_s=None, total_s=None)}
    it = WatchedDesk(small_preset(4, classes=classes, batching={"strategy": "dynamic", "window_ms": 1000}))
    it.comes("normal")
    it.passes(1.0)
    it.comes("batch")
    it.comes("batch")
    event(it)
    if 1 in it.oracle.running:
        it.leaves(1)
    it.passes(0.5)
    assert 3 not in it.oracle.running
    assert it.oracle.wake_s == pytest.approx(2.0)
    it.passes(0.5)
    assert 3 in it.oracle.running


def test_a_switch_keeps_what_has_been_learnt_of_lengths() -> None:
    """Filed again, each ticket waits in the bin of its predicted length, and is not counted as an arrival once more."""
    preset = small_preset(4, batching={"strategy": "static", "bins": 2})
    desk = Desk(preset)
    desk.arrive(Ticket(0, "normal", 0.0), 0.0)
    seen = len(desk._scheduler._bins._recent)
    other = preset.model_copy(update={"ordering": preset.ordering.model_copy(update={"inside": "edf"})})
    desk.switch(other, 1.0)
    assert desk.ledger.queued == 1
    assert len(desk._scheduler._bins._recent) == seen
    batching = Batching(**(preset.batching.model_dump() | {"bins": 3, "seats": 8}))
    desk.switch(other.model_copy(update={"batching": batching}), 2.0)
    assert (desk._scheduler._bins._k, desk._scheduler._bins._members, len(desk._scheduler.queue.lanes)) == (3, 8, 3)
    assert [ticket.id for ticket, _ in desk.waiting()] == [0]


def test_a_switch_files_each_ticket_in_the_bin_of_its_length_again() -> None:
    """Under another order the short ones wait with the short ones, as before."""
    preset = small_preset(4, batching={"strategy": "static", "bins": 2})
    desk = Desk(preset)
    for number in range(96):
        desk.arrive(Ticket(number, "normal", 0.0, max_tokens=10 if number % 2 else 1000), 0.0)
    waiting = [len(lane.order) for lane in desk._scheduler.queue.lanes]
    assert min(waiting) > 10
    desk.switch(preset.model_copy(update={"ordering": preset.ordering.model_copy(update={"inside": "edf"})}), 1.0)
    lanes = desk._scheduler.queue.lanes
    assert sum(len(lane.order) for lane in lanes) == sum(waiting)
    lengths = [{ticket.max_tokens for ticket in lane.order} for lane in lanes]
    assert lengths == [{10}, {1000}]


def test_a_ticket_behind_a_suspect_expires_in_time() -> None:
    """One runs alone for ten seconds: an arrival with a time-out of three seconds expires after three."""
    desk = Desk(small_preset(2))
    desk.arrive(Ticket(1, "normal", 0.0), 0.0)
    desk.engine_restarting({1}, 1.0)
    desk.engine_back(2.0)
    effects = desk.arrive(Ticket(2, "normal", 2.0, asked=Timeouts(queue_s=3.0)), 2.0)
    assert [one.at_s for one in effects if isinstance(one, WakeAt)] == [5.0]
    assert desk._lifecycle.crash_suspects.cleared_s is not None
    assert desk._lifecycle.crash_suspects.cleared_s > 5.0


def test_the_earlier_of_a_time_out_and_a_batch_wakes_the_desk() -> None:
    """A ticket whose own time ends before the window does not wait for the window."""
    desk = Desk(small_preset(4, batching={"strategy": "dynamic", "window_ms": 1000}))
    effects = desk.arrive(Ticket(1, "normal", 0.0, asked=Timeouts(queue_s=0.25)), 0.0)
    assert effects == [WakeAt(0.25)]
    assert dispatched(desk.tick(0.25)) == []


def test_batch_size_and_window_shrink_together_when_tokens_come_late() -> None:
    """Half of the seats, and the next batch gathers for half of the window; both are whole again once tokens come in
    time.
    """
    limit = LimitSettings(policy="aimd", inter_token_slo_ms=100)
    desk = Desk(small_preset(8, classes={"normal": terms(1)}, batching=WINDOW_OF_1_S, limit=limit))

    def batch(first: int, between_s: float) -> tuple[int, float]:
        """Serve eight or more whose tokens come so: the limit after that, and the window."""
        for number in range(first, first + 20):
            desk.arrive(Ticket(number, "normal", float(first)), float(first))
        for step in range(1, 30):
            desk.observe(Load(8, 0, 0.1, inter_token_s=between_s), first + 0.1 * step)
        for number in range(first, first + 20):
            desk.leave(number, Ending.COMPLETED, first + 5.0)
        desk.observe(Load(0, 0, 0.0), first + 5.0)
        reading = desk.read(first + 5.0)
        return desk.limit, reading.window_s

    assert (desk.limit, desk.read(0.0).window_s) == (8, 1.0)
    limit_now, window_s = batch(100, between_s=0.25)
    assert (limit_now < 8, window_s) == (True, limit_now / 8)
    assert not dispatched(desk.arrive(Ticket(1, "normal", 200.0), 200.0))
    assert dispatched(desk.tick(200.0 + window_s)) == [1]
    desk.leave(1, Ending.COMPLETED, 201.0)
    for first in range(300, 900, 100):
        limit_now, window_s = batch(first, between_s=0.02)
    assert (limit_now > 8, window_s) == (True, 1.0)


def test_a_batch_gathers_longer_while_the_gpu_is_under_used() -> None:
    """By the last reading of the GPU, which comes with the steps of the engine; as ever where there is none."""
    lengths_s: list[float] = []
    for busy in (None, 1.0, 0.4):
        desk = Desk(adaptive())
        window: Any = desk._scheduler.window
        for seats in (1, 2, 3, 4) * 5:
            window.batch_done(seats, 0.25 + 0.02 * seats, 0.0)
        for number in range(50):
            window.arrived(1, number * 0.01)
        desk.observe(Load(0, 0, 0.0, gpu_busy_ratio=busy), 0.5)
        (due_s,) = [one.at_s for one in desk.arrive(Ticket(1, "normal", 0.5), 0.5) if isinstance(one, WakeAt)]
        lengths_s.append(due_s - 0.5)
    patience_s = (0.25 - 0.02) / 2
    assert lengths_s == pytest.approx([patience_s, patience_s, 1.5 * patience_s])
