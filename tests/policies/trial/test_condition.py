"""Conditions: their text, and when they are true."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.trial import ALL, FIGURES, Condition, ConditionError, Served
from headway_policies.trial.condition import DEFAULT_FOR_S, MAX_CHARS, MAX_FOR_S

numbers = st.floats(0.01, 0.99).map(lambda value: float(f"{value:g}"))
conditions = st.builds(
    Condition,
    st.sampled_from([ALL, "realtime", "my-class_2"]),
    st.sampled_from(FIGURES),
    st.booleans(),
    numbers,
    st.integers(1, 3600).map(float),
)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("ttft_p95_s > 2 for 30 s", Condition(ALL, "ttft_p95_s", True, 2.0, 30.0)),
        ("realtime.ttft_p95_s > 1 for 30s", Condition("realtime", "ttft_p95_s", True, 1.0, 30.0)),
        ("error_share > 0.05", Condition(ALL, "error_ratio", True, 0.05, DEFAULT_FOR_S)),
        ("  tokens_per_s<1e3 for 1.5 m ", Condition(ALL, "tokens_per_s", False, 1000.0, 90.0)),
        ("batch.completed_ratio < 0.9 for 1s", Condition("batch", "completed_ratio", False, 0.9, 1.0)),
        ("error_ratio > 0", Condition(ALL, "error_ratio", True, 0.0, DEFAULT_FOR_S)),
    ],
)
def test_a_condition_is_read(text: str, meant: Condition) -> None:
    """With or without a class, spaces and a time."""
    assert Condition.parse(text) == meant


@given(conditions)
def test_a_condition_says_itself(condition: Condition) -> None:
    """Its text is read as the same condition."""
    assert Condition.parse(str(condition)) == condition


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not of the form"),
        ("ttft_p95_s", "is not of the form"),
        ("ttft_p95_s >= 2", "is not of the form"),
        ("ttft_p95_s > 2 for", "is not of the form"),
        ("ttft_p95_s > 2; rm -rf", "is not of the form"),
        ("a.b.ttft_p95_s > 2", "is not of the form"),
        ("latency > 2", "there is no figure 'latency'; the figures are: completed_ratio"),
        ("fast.ttft_p95_s > 2", "there is no class 'fast'; the classes are: realtime, normal"),
        ("ttft_p95_s > 1.2.3", "is not a number"),
        ("ttft_p95_s > 1e999", "is not a number"),
        ("error_ratio > 1.5", "is between 0 and 1"),
        ("error_ratio < -0.5", "is between 0 and 1"),
        ("error_ratio > 1", "it is never above 1"),
        ("completed_ratio < 0", "it is never below 0"),
        ("tokens_per_s < 0", "it is never below 0"),
        ("ttft_p95_s > -1", "is never below 0: -1 cannot be passed"),
        ("ttft_p95_s > 2 for 0 s", "1 to 3600 s"),
        ("ttft_p95_s > 2 for 0.5 s", "1 to 3600 s"),
        (f"ttft_p95_s > 2 for {MAX_FOR_S + 1} s", "1 to 3600 s"),
        ("ttft_p95_s > 2 for 1.2.3 s", "1 to 3600 s"),
        ("x" * (MAX_CHARS + 1), "characters at most"),
    ],
)
def test_what_cannot_be_read_says_why(text: str, said: str) -> None:
    """One clear error that names what is wrong."""
    with pytest.raises(ConditionError, match=said):
        Condition.parse(text, ["realtime", "normal"])


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing else happens."""
    with suppress(ConditionError):
        assert isinstance(Condition.parse(text), Condition)


def test_what_is_not_known_is_beyond_nothing() -> None:
    """Neither above nor below, nor is a class that has served nothing."""
    above, below = Condition.parse("ttft_p95_s > 2"), Condition.parse("normal.ttft_p95_s < 2")
    served = {ALL: Served()}
    assert [one.beyond(one.reading(served)) for one in (above, below)] == [False, False]
    served = {ALL: Served(ttft_p95_s=2.5), "normal": Served(ttft_p95_s=1.0)}
    assert [one.beyond(one.reading(served)) for one in (above, below)] == [True, True]
    served = {ALL: Served(ttft_p95_s=2.0), "normal": Served(ttft_p95_s=2.0)}
    assert [one.beyond(one.reading(served)) for one in (above, below)] == [False, False]
