"""The desk under ``inside = "prefix"``: what it knows of the engine's cache, and what becomes of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from small_presets import small_preset

from headway_policies import Desk, Dispatch, Ending, Load, Preset, Ticket, Usage

LOAD = Load(running=1, waiting=0, kv_usage_ratio=0.5, kv_capacity_tokens=4096)


def by_prefix(name: str = "small", between: str = "strict", inside: str = "prefix", seats: int = 1) -> Preset:
    return small_preset(
        seats, name=name, between=between, inside=inside, batching={"strategy": "continuous", "seats": seats}
    )


def ticket(number: int, prompt: int, class_name: str = "normal", tenant: str = "") -> Ticket:
    prefix = tuple(100 * prompt + depth for depth in range(6))
    return Ticket(number, class_name, 0.0, tenant, prompt_tokens=500, max_tokens=12, prefix=prefix)


def waiting_desk(preset: Preset) -> Desk:
    """One that runs a ticket of prompt 1, with prompts 2, 3 and 1 behind it."""
    desk = Desk(preset)
    for number, prompt in enumerate((1, 2, 3, 1)):
        desk.arrive(ticket(number, prompt), 0.0)
    return desk


def next_of(desk: Desk, running: int, now_s: float = 1.0) -> list[int]:
    """Who goes when that one ends."""
    effects = desk.leave(running, Ending.COMPLETED, now_s, Usage(500, 12))
    return [one.ticket_id for one in effects if isinstance(one, Dispatch)]


def test_the_desk_dispatches_by_the_prompts_that_are_cached() -> None:
    """The prompt of the one that ran goes on, then in the order of arrival."""
    desk, order, running = waiting_desk(by_prefix()), [0], 0
    while len(order) < 4:
        (running,) = next_of(desk, running)
        order.append(running)
    assert order == [0, 3, 1, 2]


def test_all_classes_know_of_one_cache() -> None:
    """A prompt that an urgent request brought in is a match for a normal one."""
    desk = Desk(by_prefix())
    desk.arrive(ticket(0, 5, "realtime"), 0.0)
    for number, prompt in enumerate((2, 5), start=1):
        desk.arrive(ticket(number, prompt), 0.0)
    assert next_of(desk, 0) == [2]


FORGETS: dict[str, Callable[[Desk], object]] = {
    "a restart of the engine": lambda desk: (desk.engine_restarting([], 0.5), desk.engine_back(0.6)),
    "the loss of the engine": lambda desk: desk.engine_lost(0.5),
    "a cache that was emptied": lambda desk: desk.observe(replace(LOAD, prefix_cleared=True), 0.5),
    "another order for a while": lambda desk: (desk.switch(by_prefix("other", inside="fifo"), 0.5),
                                               desk.switch(by_prefix(), 0.6)),
    "no room at all": lambda desk: desk.observe(replace(LOAD, kv_capacity_tokens=16), 0.5),
}  # fmt: skip


@pytest.mark.parametrize("event", FORGETS.values(), ids=FORGETS)
def test_what_the_engine_no_longer_has_is_forgotten(event: Callable[[Desk], object]) -> None:
    """Nothing is cached then."""
    desk = waiting_desk(by_prefix())
    assert desk._scheduler.prefixes.matched_tokens(ticket(9, 1)) == 486
    event(desk)
    assert desk._scheduler.prefixes.matched_tokens(ticket(9, 1)) == 0


def test_a_switch_between_presets_with_this_order_keeps_what_is_known() -> None:
    """The engine's cache is the same, and those that wait are matched again."""
    desk = waiting_desk(by_prefix())
    desk.switch(by_prefix("other", between="weighted"), 0.5)
    assert desk._scheduler.prefixes.matched_tokens(ticket(9, 1)) == 486
    assert next_of(desk, 0) == [3]


def test_the_model_follows_what_the_engine_finds() -> None:
    """An engine that never finds a prompt has less room than it says."""
    desk = Desk(by_prefix(seats=500))
    for number in range(200):
        desk.arrive(ticket(number, 1), 0.0)
        desk.observe(replace(LOAD, prefix_queried_tokens=500, prefix_hit_tokens=0), 0.0)
    assert desk._scheduler.prefixes.factor < 0.9


@pytest.mark.parametrize("inside", ["fifo", "fair", "edf"])
def test_other_orders_keep_no_model(inside: str) -> None:
    """Nothing is recorded where nothing reads it."""
    desk = waiting_desk(by_prefix(inside=inside))
    desk.observe(replace(LOAD, prefix_queried_tokens=500), 0.5)
    assert len(desk._scheduler.prefixes) == 0
    assert desk._scheduler.prefixes._queried_tokens == 0


def test_the_expected_wait_is_that_of_fair_sharing() -> None:
    """A new tenant waits for its part, not for all that another one has waiting."""
    waits = {}
    for inside in ("fifo", "fair", "prefix"):
        desk = Desk(by_prefix(inside=inside))
        for number in range(60):
            desk.arrive(replace(ticket(number, 1, tenant="heavy"), arrived_s=float(number)), float(number))
            if number < 20:
                next_of(desk, number, number + 0.9)
        waits[inside] = desk._scheduler.expected_wait_s(ticket(99, 2, tenant="light"))
    assert waits["prefix"] == waits["fair"]
    assert waits["fair"] is not None
    assert waits["fifo"] is not None
    assert waits["fair"] < waits["fifo"] / 4
