"""The number of open seats while a limit ratio is in force, and during a ramp."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_presets import small_preset

from headway_policies import Desk, Load, bundled_presets
from headway_policies.desk.capacity import CapReason, Opening
from headway_policies.engine.warmup import Ramp

RECOVERY, MEMORY = CapReason.RECOVERY, CapReason.MEMORY
NO_RAMP, RAMP = Ramp(0.0), Ramp(10.0)


def held(*ratios: tuple[CapReason, float]) -> Opening:
    """These hold seats back."""
    one = Opening()
    for reason, ratio in ratios:
        one.cap(reason, ratio)
    return one


SHARES: dict[str, tuple[list[tuple[CapReason, float]], int]] = {
    "none": ([], 16),
    "one": ([(MEMORY, 0.5)], 8),
    "the other": ([(RECOVERY, 0.25)], 4),
    "both": ([(RECOVERY, 0.25), (MEMORY, 0.5)], 4),
    "both, the other way round": ([(RECOVERY, 0.5), (MEMORY, 0.25)], 4),
    "one that let go": ([(RECOVERY, 0.25), (MEMORY, 0.5), (RECOVERY, 1.0)], 8),
    "rounded down": ([(MEMORY, 0.3)], 4),
    "never none": ([(MEMORY, 0.001)], 1),
}


@pytest.mark.parametrize(("ratios", "seats"), SHARES.values(), ids=SHARES)
def test_the_least_share_counts_and_one_seat_is_always_open(ratios: list[tuple[CapReason, float]], seats: int) -> None:
    """Of 16 seats; time alone opens none."""
    one = held(*ratios)
    assert one.seats(16, NO_RAMP, 0.0) == seats
    assert (one.moving, one.due_s(16, NO_RAMP, 0.0)) == (False, None)


@pytest.mark.parametrize(
    ("now_s", "seats", "due_s"),
    [(100.0, 1, 102.5), (102.5, 2, 103.962), (105.0, 4, 105.805), (109.99, 15, 110.0), (110.0, 16, None)],
)
def test_a_ramp_opens_the_seats_one_after_another(now_s: float, seats: int, due_s: float | None) -> None:
    """From one at its beginning to all at its end, and it says when the next one opens."""
    one = Opening()
    one.begin(100.0)
    assert one.seats(16, RAMP, now_s) == seats
    assert one.due_s(16, RAMP, now_s) == (None if due_s is None else pytest.approx(due_s, abs=0.001))


def test_a_ramp_climbs_to_the_share_that_is_held() -> None:
    """A ratio is not passed by a ramp, neither during it nor at its end."""
    one = held((MEMORY, 0.5))
    one.begin(0.0)
    assert [one.seats(16, RAMP, now_s) for now_s in (0.0, 5.0, 9.99)] == [1, 2, 7]
    assert one.due_s(16, RAMP, 0.0) == pytest.approx(10.0 / 3)
    assert one.seats(16, RAMP, 10.0) == 8
    one.cap(MEMORY, 1.0)
    assert one.seats(16, RAMP, 10.0) == 16


def test_a_ramp_that_was_climbed_is_over() -> None:
    """Time opens nothing any more, and a longer ramp that comes into force later takes no seats away."""
    one = Opening()
    one.begin(0.0)
    assert one.moving
    assert one.seats(16, RAMP, 10.0) == 16
    assert not one.moving
    assert (one.seats(16, Ramp(1000.0), 11.0), one.due_s(16, Ramp(1000.0), 11.0)) == (16, None)
    one.begin(20.0)
    assert one.seats(16, RAMP, 20.0) == 1


def test_without_a_ramp_a_beginning_changes_nothing() -> None:
    """All seats at once."""
    one = Opening()
    one.begin(5.0)
    assert (one.seats(16, NO_RAMP, 5.0), one.moving) == (16, False)


@given(
    st.integers(1, 500),
    st.lists(st.tuples(st.sampled_from(CapReason), st.floats(0.01, 1.0)), max_size=4),
    st.floats(0, 100),
    st.lists(st.floats(0, 200), min_size=1),
)
def test_there_is_always_a_seat_and_never_more_than_the_limit(
    limit: int, ratios: list[tuple[CapReason, float]], ramp_s: float, times_s: list[float]
) -> None:
    """Whatever ratios are in force, at any time of any ramp; and a ramp only increases."""
    one, ramp = held(*ratios), Ramp(ramp_s)
    whole = one.seats(limit, ramp, 0.0)
    one.begin(0.0)
    seen = [one.seats(limit, ramp, now_s) for now_s in sorted(times_s)]
    assert seen == sorted(seen)
    assert all(1 <= seats <= whole <= limit for seats in seen)
    assert one.seats(limit, ramp, 200.0) == whole


def test_a_bound_in_seats_holds_under_every_preset() -> None:
    """A switch to one with more seats dispatches no more; without the bound the seats of the preset are open."""
    desk = Desk(small_preset(seats=4))
    desk.bound_seats(2, 0.0)
    assert desk.limit == 2
    desk.switch(small_preset(seats=32), 1.0)
    assert desk.limit == 2
    desk.bound_seats(0, 2.0)
    assert desk.limit == 1
    desk.bound_seats(None, 3.0)
    assert desk.limit == 32


@pytest.mark.parametrize(("present", "there"), [(1.0, 4), (0.5, 2), (0.25, 1)])
def test_the_limit_in_front_of_instances_is_for_all_of_them_however_many_are_there(present: float, there: int) -> None:
    """The same engines, each with so many sequences: the same fit. Their share of the limit is open, and what others
    finish takes nothing of it.
    """
    desk = Desk(bundled_presets()["balanced"], ceiling=4096)
    desk.bound_seats(4096, 0.0, present=present, elsewhere=7)
    for at in range(1, 400):
        each = 1 + at % 16
        load = Load(each * there, 0, 0.1, inter_token_s=0.02 + 0.002 * each)
        desk.observe(load, 0.03 * at)
    assert desk.engine_fit.costs.step_s(4 * 8, 0) == pytest.approx(0.036, rel=0.05)
    assert desk.limit == math.ceil(desk.read(12.0).proposed_limit * present) + 7


@given(st.integers(1, 300), st.floats(0.0, 1.0), st.floats(0.1, 1.0))
def test_two_fronts_open_no_more_than_the_limit_together(limit: int, front: float, present: float) -> None:
    """Each its share, rounded down; but one seat is always open."""

    def opened(share: float) -> int:
        one = Opening()
        one.present, one.front = present, share
        return one.seats(limit, Ramp(0.0), 0.0)

    whole = opened(1.0)
    has_none = min(front, 1 - front) * whole < 1
    assert opened(front) + opened(1 - front) <= whole + has_none


def test_a_front_learns_of_all_that_runs_and_of_its_own_share_of_the_seats() -> None:
    """The load has what the other fronts run; the seats taken are its own, so they count as many times more."""
    desks = [Desk(bundled_presets()["balanced"], ceiling=4096) for _ in range(2)]
    desks[0].bound_seats(4096, 0.0, front=0.25)
    for desk in desks:
        for at in range(1, 400):
            each = 1 + at % 16
            desk.observe(Load(each, 0, 0.1, inter_token_s=0.02 + 0.002 * each), 0.03 * at)
    shared, alone = desks
    assert shared.engine_fit.costs.step_s(8, 0) == pytest.approx(alone.engine_fit.costs.step_s(8, 0), rel=0.01)
    reading = shared.read(12.0)
    assert (shared.limit, reading.whole_limit) == (reading.proposed_limit // 4, reading.proposed_limit)
