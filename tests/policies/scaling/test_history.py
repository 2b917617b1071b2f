"""The history of arrivals: the same time of the last days, one odd day aside, and never more than was seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.scaling import ArrivalHistory

DAY_S, SLOT_S = 240.0, 60.0


def history(*days: tuple[int, int, int, int], least_days: int = 2, remembered: int = 3) -> ArrivalHistory:
    """Days of four slots with so many arrivals each, one observation every ten seconds; and the first of the next."""
    found = ArrivalHistory(days=remembered, least_days=least_days, slot_s=SLOT_S, day_s=DAY_S)
    for number, day in enumerate(days):
        for slot, arrivals in enumerate(day):
            for part in range(6):
                at_s = number * DAY_S + slot * SLOT_S + part * 10.0
                found.observe(arrivals if part == 1 else 0, at_s)
    found.observe(0, len(days) * DAY_S)
    return found


def test_nothing_is_forecast_from_too_few_days() -> None:
    """One day is none."""
    assert history((10, 10, 10, 10)).expected_per_s(0.0, DAY_S) is None
    assert history((10, 10, 10, 10), (10, 10, 10, 10)).expected_per_s(0.0, DAY_S) is not None


def test_a_slot_is_forecast_as_on_the_days_before() -> None:
    """A rate a second, by the time of day, across midnight too."""
    found = history((0, 60, 120, 0), (0, 60, 120, 0))
    assert [found.expected_per_s(at_s, at_s) for at_s in (490.0, 540.0, 610.0, 670.0)] == [0.0, 1.0, 2.0, 0.0]
    assert found.expected_per_s(2 * DAY_S, 3 * DAY_S) == 2.0
    assert found.expected_per_s(2 * DAY_S + 190.0, 3 * DAY_S + 70.0) == 1.0


def test_one_odd_day_does_not_raise_the_forecast() -> None:
    """The median of three days; of two the lower."""
    assert history((60, 0, 0, 0), (600, 0, 0, 0), (60, 0, 0, 0)).expected_per_s(0.0, 0.0) == pytest.approx(1.0)
    assert history((60, 0, 0, 0), (600, 0, 0, 0)).expected_per_s(0.0, 0.0) == pytest.approx(1.0)


def test_old_days_are_forgotten() -> None:
    """After as many as are remembered."""
    days = [(600, 0, 0, 0)] * 3 + [(60, 0, 0, 0)] * 2
    assert history(*days).expected_per_s(0.0, 0.0) == pytest.approx(1.0)


def test_a_slot_that_was_hardly_observed_is_not_kept() -> None:
    """A server that was down says nothing of the arrivals meanwhile."""
    found = ArrivalHistory(days=3, least_days=1, slot_s=SLOT_S, day_s=DAY_S)
    for at_s in (50.0, 55.0, 120.0, 130.0, 170.0, 180.0):
        found.observe(1, at_s)
    known = [found.expected_per_s(slot * SLOT_S, slot * SLOT_S) for slot in range(4)]
    assert [one is not None for one in known] == [False, False, True, False]


@given(
    st.lists(st.tuples(st.floats(0.5, 90.0), st.integers(0, 50)), max_size=60),
    st.floats(0.0, 500.0),
    st.floats(0.0, 500.0),
)
def test_the_forecast_is_bounded_by_what_was_seen(gaps: list[tuple[float, int]], from_s: float, more_s: float) -> None:
    """No rate is above all arrivals within half a slot."""
    found, now_s, total = ArrivalHistory(days=2, least_days=1, slot_s=SLOT_S, day_s=DAY_S), 0.0, 0
    for gap_s, arrivals in gaps:
        now_s += gap_s
        total += arrivals
        found.observe(arrivals, now_s)
    expected_per_s = found.expected_per_s(from_s, from_s + more_s)
    assert expected_per_s is None or 0.0 <= expected_per_s <= total / (SLOT_S / 2)


@pytest.mark.parametrize(
    ("wrong", "says"), [({"slot_s": 7.0}, "divide"), ({"least_days": 4}, "least_days"), ({"slot_s": 0.001}, "divide")]
)
def test_settings_that_make_no_day_are_refused(wrong: dict[str, float], says: str) -> None:
    """In one line."""
    with pytest.raises(ValueError, match=says):
        ArrivalHistory(**{"days": 3, "slot_s": SLOT_S, "day_s": DAY_S, **wrong})  # type: ignore[arg-type]


def test_another_process_goes_on_with_what_was_remembered() -> None:
    """The same forecast; and a new day still pushes the oldest one out."""
    first = ArrivalHistory(days=2, slot_s=100.0, day_s=1000.0)
    for at_s in range(0, 2001, 10):
        first.observe(400 if 500 < at_s % 1000 <= 600 else 40, float(at_s))
    following = ArrivalHistory(days=2, slot_s=100.0, day_s=1000.0)
    following.recall(first.remembered())
    assert following.expected_per_s(2500.0, 2599.0) == first.expected_per_s(2500.0, 2599.0) == pytest.approx(40.0)
    for at_s in range(2500, 2611, 10):
        following.observe(0, float(at_s))
    assert following.expected_per_s(2500.0, 2599.0) == 0.0


@pytest.mark.parametrize(
    "remembered", [[[]], [[1.0]] * 9 + [[-1.0]], [[float("nan")]] * 10], ids=["slots", "negative", "not a number"]
)
def test_what_is_of_other_slots_is_refused(remembered: list[list[float]]) -> None:
    """And changes nothing."""
    history = ArrivalHistory(least_days=1, slot_s=100.0, day_s=1000.0)
    history.recall([[3.0]] * 10)
    with pytest.raises(ValueError, match="history"):
        history.recall(remembered)
    assert history.expected_per_s(0.0, 99.0) == 3.0
