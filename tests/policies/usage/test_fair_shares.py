"""Max-min fair shares and Jain's index: known splits, and what holds for any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.usage import jain, max_min

AMOUNTS = st.floats(0, 1e9)


@given(st.dictionaries(st.sampled_from("abcde"), st.tuples(AMOUNTS, st.floats(0.1, 10)), min_size=1), AMOUNTS)
def test_a_max_min_share_leaves_nothing_and_gives_nobody_too_much(
    tenants: dict[str, tuple[float, float]], whole: float
) -> None:
    """Who has not all that it wanted has the largest share by weight of all."""
    wanted = {name: amount for name, (amount, _) in tenants.items()}
    weights = {name: weight for name, (_, weight) in tenants.items()}
    given_ = max_min(wanted, whole, weights)
    assert sum(given_.values()) == pytest.approx(min(whole, sum(wanted.values())), abs=1e-3)
    most = max(given_[name] / weights[name] for name in given_)
    for name, amount in given_.items():
        assert amount <= wanted[name]
        assert amount == pytest.approx(wanted[name], abs=1e-3) or amount / weights[name] == pytest.approx(
            most, rel=1e-6
        )


def test_without_weights_the_parts_are_equal() -> None:
    """What one leaves is the others'."""
    assert max_min({"greedy": 100, "small": 10}, 50) == {"small": 10, "greedy": 40}
    assert max_min({"a": 100, "b": 100}, 50) == {"a": 25, "b": 25}
    assert max_min({}, 50) == {}


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_the_index_of_jain_lies_between_one_of_n_and_one(shares: list[float]) -> None:
    """Whatever the shares."""
    assert 1 / len(shares) - 1e-9 <= jain(shares) <= 1 + 1e-9
