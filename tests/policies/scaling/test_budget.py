"""The budget: a day's instance hours, with enough left for the minimum."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headway_policies.scaling import DayBudget

DAY_S = 36_000.0


@given(st.integers(1, 3), st.integers(1, 8), st.floats(5.0, 60.0), st.lists(st.floats(1.0, 600.0), min_size=1))
def test_a_day_never_costs_more_than_its_budget(minimum: int, more: int, hours: float, gaps_s: list[float]) -> None:
    """Whatever is wanted: beyond it, no more than between two calls, unless the minimum alone needs more."""
    budget, now_s, number = DayBudget(hours, DAY_S), 0.0, minimum
    budget.spend(minimum, 0.0)
    spent_s = dict.fromkeys(range(40), 0.0)
    for gap_s in (gaps_s * (int(DAY_S // sum(gaps_s)) + 1))[:2000]:
        day = int(now_s // DAY_S)
        until_s = now_s + gap_s
        first_s = min(until_s, (day + 1) * DAY_S) - now_s
        spent_s[day] += number * first_s
        spent_s[int(until_s // DAY_S)] += number * (gap_s - first_s)
        now_s = until_s
        budget.spend(number, now_s)
        number = minimum + more if budget.allows(minimum, now_s) else minimum
    allowed_s = max(hours * 3600.0, minimum * DAY_S) + more * max(gaps_s)
    assert max(spent_s.values()) <= allowed_s + 1e-6 * DAY_S


def test_the_budget_begins_anew_at_midnight() -> None:
    """Of 20 hours a day, four instances leave too few after four hours of ten; the day after they may run again."""
    budget = DayBudget(20.0, DAY_S)
    budget.spend(1, 0.0)
    budget.spend(4, 3600.0 * 3)
    assert budget.allows(1, 3600.0 * 3)
    budget.spend(4, 3600.0 * 4)
    assert not budget.allows(1, 3600.0 * 4)
    budget.spend(1, 3600.0 * 10 + 60.0)
    assert budget.allows(1, 3600.0 * 10 + 60.0)
