"""The rule by which one of several servers stands out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_dashboard.analysis.server.fleet.outliers import Bound, differing, standing_out

NAMES = st.sampled_from("abcdefgh")
VALUES = st.dictionaries(NAMES, st.none() | st.floats(0, 1e6, allow_nan=False), max_size=8)
BOUNDS = st.builds(Bound, st.floats(0, 100), st.booleans())


@pytest.mark.parametrize(
    ("values", "bound", "expected"),
    [
        ({"a": 10, "b": 10, "c": 16}, Bound(1), {"c": "above"}),
        ({"a": 10, "b": 10, "c": 15}, Bound(1), {}),
        ({"a": 10, "b": 10, "c": 16}, Bound(7), {}),
        ({"a": 10, "b": 10, "c": 0}, Bound(1), {}),
        ({"a": 10, "b": 10, "c": 0}, Bound(1, below=True), {"c": "below"}),
        ({"a": 0, "b": 0, "c": 6}, Bound(5), {"c": "above"}),
        ({"a": 10, "b": 31}, Bound(1, below=True), {"b": "above"}),
        ({"a": 10, "b": 30}, Bound(1, below=True), {}),
        ({"a": 1, "b": 9}, Bound(5), {}),
        ({"a": 10, "b": 31, "c": None}, Bound(1), {"b": "above"}),
        ({"a": 1000}, Bound(1), {}),
        ({}, Bound(1), {}),
    ],
    ids=[
        "half above", "exactly half above", "less than the least", "few are no fault", "few are one", "a median of 0",
        "two: over three times", "two: exactly three times", "two: too little", "one has no value", "alone", "none",
    ],
)  # fmt: skip
def test_the_rule(values: dict[str, float | None], bound: Bound, expected: dict[str, str]) -> None:
    """Worked out by hand."""
    assert standing_out(values, bound) == expected


@given(VALUES, BOUNDS)
def test_at_most_half_stand_out_on_a_side(values: dict[str, float | None], bound: Bound) -> None:
    """Else the rule would not be about outliers; and who has no value never does."""
    found = standing_out(values, bound)
    known = {name for name, value in values.items() if value is not None}
    assert found.keys() <= known
    for side in ("above", "below"):
        assert 2 * sum(one == side for one in found.values()) <= len(known)


@given(st.lists(NAMES, unique=True), st.floats(0, 1e6), BOUNDS)
def test_equals_never_stand_out(names: list[str], value: float, bound: Bound) -> None:
    """Whatever the bound."""
    assert standing_out(dict.fromkeys(names, value), bound) == {}


@given(VALUES, BOUNDS, st.randoms())
def test_the_order_does_not_matter(values: dict[str, float | None], bound: Bound, random: object) -> None:
    """The servers are compared by their values alone."""
    names = list(values)
    random.shuffle(names)  # type: ignore[attr-defined]  # hypothesis gives a Random
    assert standing_out({name: values[name] for name in names}, bound) == standing_out(values, bound)


@given(VALUES, BOUNDS, NAMES)
def test_a_larger_value_does_not_stop_to_stand_out(values: dict[str, float | None], bound: Bound, name: str) -> None:
    """A server that is far above stays so when it grows, because the median of the others bounds the median."""
    if (
        standing_out(values, bound).get(name) == "above"
        and len([value for value in values.values() if value is not None]) > 2
    ):
        grown = {**values, name: (values[name] or 0.0) * 2}
        assert standing_out(grown, bound).get(name) == "above"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"a": "x", "b": "x", "c": "y"}, {"c"}),
        ({"a": "x", "b": "y"}, {"a", "b"}),
        ({"a": "x", "b": "y", "c": "z"}, {"a", "b", "c"}),
        ({"a": "x", "b": "x"}, set()),
        ({"a": "x", "b": ""}, set()),
        ({}, set()),
    ],
    ids=["one differs", "two differ", "no usual one", "equal", "not known", "none"],
)
def test_texts_that_differ(texts: dict[str, str], expected: set[str]) -> None:
    """From what more than half have; where there is no such text, all do."""
    assert differing(texts) == expected
