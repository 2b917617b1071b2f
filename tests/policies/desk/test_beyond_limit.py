"""Seats that the most urgent class, and a tenant that was served little, take beyond a limit that moves."""

from __future__ import annotations

from typing import Any

import pytest
from small_presets import small_preset, terms
from watched_desk import WatchedDesk, dispatched

from headway_policies import CapReason, Preset
from headway_policies.limits import LimitSettings
from headway_policies.queueing.fair_share import CREDIT_TICKETS


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


def unequal(seats: int = 8, ceiling: int | None = None, **more: Any) -> WatchedDesk:
    """One whose seats are all taken by a tenant that was served 32 requests for the one of another."""
    it = WatchedDesk(small_preset(seats, inside="fair", **({"limit": LimitSettings(policy="aimd")} | more)), ceiling)
    for tenant in ("quiet", *["loud"] * CREDIT_TICKETS):
        it.comes(tenant=tenant, prompt_tokens=10, max_tokens=10)
        it.leaves(it.arrived)
    for _ in range(seats):
        it.comes("normal", tenant="loud")
    return it


@pytest.mark.parametrize("others", [0, 3])
@pytest.mark.parametrize(("seats", "gone"), [(1, 0), (8, 1), (16, 2), (100, 5)])
def test_a_tenant_that_was_served_little_goes_beyond(seats: int, gone: int, others: int) -> None:
    """Half the root of the limit, whether the other tenant waits or not: those that it makes wait need not."""
    it = unequal(seats)
    for _ in range(others):
        assert dispatched(it.comes(tenant="loud")) == []
    assert beyond(it, "normal", gone, tenant="quiet") == gone
    assert it.desk.seats_taken == seats + gone
    assert beyond(it, "normal", 3, tenant="loud") == 0
    if gone:
        assert dispatched(it.leaves(CREDIT_TICKETS + 2)) == [], "a seat beyond is given back before another one goes"
    assert beyond(it, "normal", 3, tenant="quiet") == min(gone, 1)
    it.oracle.check(it.now_s)


def test_tenants_that_are_served_alike_keep_to_the_limit() -> None:
    """Neither the busy one, nor one of several that send as much, nor a new one, has anything to make up for."""
    for tenants in (["a"], ["a", "b"], ["a", "a", "b"]):
        it = WatchedDesk(small_preset(8, inside="fair", limit=LimitSettings(policy="aimd")))
        for _ in range(4):
            for tenant in tenants:
                it.comes(tenant=tenant, prompt_tokens=10, max_tokens=10)
                it.leaves(it.arrived)
        for _ in range(8):
            it.comes(tenant="a", prompt_tokens=10, max_tokens=10)
        assert [beyond(it, "normal", 3, tenant=tenant) for tenant in ("a", "b", "c")] == [0, 0, 0]


def test_in_the_order_of_arrival_no_tenant_goes_beyond() -> None:
    """Only an order that is fair between tenants knows which was served little."""
    it = WatchedDesk(small_preset(8, limit=LimitSettings(policy="aimd")))
    for tenant in ("quiet", *["loud"] * 40):
        it.comes(tenant=tenant)
        it.leaves(it.arrived)
    for _ in range(8):
        it.comes(tenant="loud")
    assert beyond(it, "normal", tenant="quiet") == 0


@pytest.mark.parametrize(
    ("ceiling", "more"),
    [(None, {"limit": LimitSettings()}), (8, {}), (None, {"limit": LimitSettings(policy="aimd", max_seats=8)})],
    ids=["fixed", "all that the engine has", "the highest that the preset allows"],
)
def test_a_tenant_does_not_go_beyond_what_is_not_to_be_passed(ceiling: int | None, more: dict[str, Any]) -> None:
    """The same for a tenant as for a class."""
    assert beyond(unequal(ceiling=ceiling, **more), "normal", tenant="quiet") == 0


def test_a_wide_ticket_of_such_a_tenant_goes_as_a_whole() -> None:
    """A seat is free and one is lent: two go, three do not; nor do two where the engine has no more than the one."""
    for ceiling, seats, gone in ((None, 2, 1), (None, 3, 0), (8, 2, 0)):
        it = unequal(8, ceiling)
        it.leaves(CREDIT_TICKETS + 2)
        assert beyond(it, "normal", 1, tenant="quiet", seats=seats) == gone


def test_a_wide_ticket_does_not_pass_what_the_engine_has() -> None:
    """Two seats are left beyond the limit: no ticket of four gets them."""
    assert beyond(full(moving(), 10), seats=4) == 0


def test_half_of_a_reserve_is_lent_where_the_limit_cannot_be_passed() -> None:
    """The engine has no more seats: two of five that are kept for a class above, and no more while those are lent."""
    classes = {"normal": terms(2), "realtime": terms(3, reserved_seats=5)}
    for limit, gone in ((LimitSettings(policy="aimd"), 2), (LimitSettings(policy="aimd", shadow=True), 0)):
        it = unequal(20, 20, limit=limit, classes=classes)
        assert it.desk.seats_taken == 15
        assert beyond(it, "normal", tenant="quiet") == gone
        assert beyond(it, number=9) == 5 - gone
        it.oracle.check(it.now_s)


def test_a_reserve_is_passed_where_the_class_above_may_go_beyond() -> None:
    """Two seats are kept for a class above: one of them is lent where the limit moves, none where it is fixed."""
    classes = {"normal": terms(2), "realtime": terms(3, reserved_seats=2)}
    for limit, gone in ((LimitSettings(policy="aimd"), 1), (LimitSettings(), 0)):
        it = unequal(limit=limit, classes=classes)
        assert it.desk.seats_taken == 6
        assert beyond(it, "normal", tenant="quiet") == gone
        assert dispatched(it.comes("realtime")) == [it.arrived]
        it.oracle.check(it.now_s)
