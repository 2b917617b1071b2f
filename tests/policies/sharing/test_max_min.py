"""Weighted max-min fairness in whole seats."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.sharing import fill

MODELS = st.dictionaries(
    st.sampled_from("abcde"), st.tuples(st.integers(1, 40), st.sampled_from((0.5, 1.0, 2.0, 3.0))), min_size=1
)


@pytest.mark.parametrize(
    ("caps", "weights", "free", "given_seats"),
    [
        ({"a": 9, "b": 9}, {"a": 1, "b": 1}, 10, {"a": 5, "b": 5}),
        ({"a": 9, "b": 9}, {"a": 3, "b": 1}, 8, {"a": 6, "b": 2}),
        ({"a": 2, "b": 9}, {"a": 3, "b": 1}, 8, {"a": 2, "b": 6}),
        ({"a": 2, "b": 3}, {"a": 1, "b": 1}, 8, {"a": 2, "b": 3}),
        ({"a": 9, "b": 9}, {"a": 1, "b": 1}, 0, {"a": 0, "b": 0}),
    ],
    ids=["equal", "weights", "a small demand", "more than all want", "none free"],
)
def test_seats_go_by_weight_up_to_the_caps(
    caps: dict[str, int], weights: dict[str, float], free: int, given_seats: dict[str, int]
) -> None:
    """Seats that a model does not want go to the others."""
    assert fill(dict.fromkeys(caps, 0), caps, weights, free) == given_seats


@given(models=MODELS, free=st.integers(0, 120))
def test_nobody_can_have_more_without_taking_from_a_model_that_has_no_more(
    models: dict[str, tuple[int, float]], free: int
) -> None:
    """The definition of max-min: all is given or all caps are reached, and a lower share for a weight is a cap."""
    caps = {name: cap for name, (cap, _) in models.items()}
    weights = {name: weight for name, (_, weight) in models.items()}
    seats = fill(dict.fromkeys(caps, 0), caps, weights, free)
    assert sum(seats.values()) == min(free, sum(caps.values()))
    for poor in seats:
        if seats[poor] < caps[poor]:
            assert all(seats[rich] / weights[rich] <= (seats[poor] + 1) / weights[poor] for rich in seats)
