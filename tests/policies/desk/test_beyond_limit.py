"""Seats that the most urgent class takes beyond a limit that moves."""

from __future__ import annotations

from typing import Any

import pytest
from small_presets import small_preset
from watched_desk import WatchedDesk, dispatched

from headway_policies import CapReason, Preset
from headway_policies.limits import LimitSettings


def moving(seats: int = 8, *, between: str = "strict", **more: Any) -> Preset:
    """A limit that would move, on an engine that reports nothing: it stays where it starts."""
    return small_preset(seats, between=between, limit=LimitSettings(policy="aimd", **more))


def full(preset: Preset, ceiling: int | None = None, name: str = "batch") -> WatchedDesk:
    """One whose seats are all taken by the least urgent class."""
    it = WatchedDesk(preset, ceiling=ceiling)
    for _ in range(preset.batching.seats):
        it.comes(name)
    assert it.desk.seats_taken == preset.batching.seats
    return it


def beyond(it: WatchedDesk, name: str = "realtime", number: int = 20, **more: Any) -> int:
    """How many of so many arrivals go although all seats are taken."""
    return sum(len(dispatched(it.comes(name, **more))) for _ in range(number))


def test_the_most_urgent_class_gets_its_share_and_the_root_of_it() -> None:
    """Of 8 seats its share is 4.8: ceil(4.8 + sqrt(4.8)) go, and no ticket of another class."""
    it = full(moving())
    assert beyond(it, "normal") == 0
    assert beyond(it) == 7
    assert it.desk.seats_taken == 15
    it.oracle.check(it.now_s)


def test_seats_that_it_holds_within_the_limit_count() -> None:
    """The class never has more than that, wherever its seats are."""
    it = WatchedDesk(moving())
    for _ in range(5):
        it.comes("realtime")
    for _ in range(3):
        it.comes("batch")
    assert beyond(it) == 2


@pytest.mark.parametrize(
    "preset",
    [small_preset(8), small_preset(1), small_preset(8, limit=LimitSettings(memory_aware=True)), moving(shadow=True)],
    ids=["fixed", "one at a time", "fixed, by memory", "shadow"],
)
def test_a_fixed_number_of_seats_is_passed_by_none(preset: Preset) -> None:
    """An operator who states a number of seats gets no more, and one at a time is one at a time."""
    assert beyond(full(preset)) == 0


def test_a_batch_is_never_joined() -> None:
    """Under a strategy that runs whole batches there is nothing to go beside."""
    preset = moving().model_copy(update={"batching": small_preset(8, batching={"strategy": "static"}).batching})
    assert beyond(full(preset)) == 0


@pytest.mark.parametrize(("ceiling", "more", "gone"), [(10, {}, 2), (8, {}, 0), (None, {"max_seats": 11}, 3)])
def test_the_highest_limit_is_passed_by_none(ceiling: int | None, more: dict[str, int], gone: int) -> None:
    """Neither what the engine has, nor what the preset allows."""
    assert beyond(full(moving(**more), ceiling)) == gone


def test_what_is_held_back_stays_closed() -> None:
    """Less is open than the limit says, for the engine's memory or by a bound on its seats: that holds for all."""
    it = full(moving())
    it.does("cap_seats", CapReason.MEMORY, 0.5)
    assert beyond(it, number=3) == 0
    it = full(moving())
    it.does("bound_seats", 8)
    assert beyond(it, number=3) == 0


def test_a_wide_ticket_goes_only_as_a_whole() -> None:
    """Seven seats beyond: one of four goes, a second one does not."""
    it = full(moving())
    assert [len(dispatched(it.comes("realtime", seats=4))) for _ in range(2)] == [1, 0]


def test_under_shares_it_goes_beyond_only_in_its_turn() -> None:
    """While all classes wait, the tokens go by the shares, whatever the most urgent class may hold."""
    it = WatchedDesk(moving(4, between="weighted"))
    for name in ("batch", "normal", "realtime"):
        for _ in range(32):
            it.comes(name, prompt_tokens=10, max_tokens=10)
    gone: list[int] = []
    for _ in range(48):
        gone += dispatched(it.leaves(min(it.oracle.running)))
    share = sum(it.oracle.tickets[one].class_name == "realtime" for one in gone) / len(gone)
    assert share == pytest.approx(0.6, abs=0.08)
