"""Tests of the spread of the paces of single requests."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.prediction import PaceSpread


def test_it_is_the_deviation_of_the_times_between_tokens_as_a_share_of_their_mean() -> None:
    """Of 40 and 60 ms in turn: 10 of 50 ms."""
    spread = PaceSpread()
    for number in range(64):
        spread.ended(11, 10 * (0.04 if number % 2 else 0.06))
    assert spread.ratio == pytest.approx(0.2, rel=0.1)


def test_nothing_is_known_of_too_few_requests() -> None:
    """Sixteen answers of eight tokens or more are needed."""
    spread = PaceSpread()
    for number in range(100):
        spread.ended(7, 0.1 + number)
    for number in range(15):
        spread.ended(8, 0.1 + number)
    assert spread.ratio == 0
    spread.ended(8, 0.1)
    assert spread.ratio > 0


def test_old_requests_fade() -> None:
    """A spread that is over is forgotten."""
    spread = PaceSpread()
    for number in range(64):
        spread.ended(11, 10 * (0.04 if number % 2 else 0.06))
    for _ in range(600):
        spread.ended(11, 0.5)
    assert spread.ratio < 0.01


def test_requests_that_become_quicker_are_no_spread() -> None:
    """Another limit, with which each is quicker than the last: counted as a spread it would lower the limit again."""
    spread = PaceSpread()
    for number in range(64):
        spread.ended(11, 10 * 0.12 * 0.98**number)
    assert spread.ratio < 0.01
    for number in range(64):
        spread.ended(11, 10 * 0.03 * 1.02**number)
    assert spread.ratio > 0.1


def test_what_is_forgotten_is_not_known() -> None:
    """As at the start."""
    spread = PaceSpread()
    for number in range(64):
        spread.ended(11, 10 * (0.04 if number % 2 else 0.06))
    spread.forget()
    assert spread.ratio == 0


@given(st.lists(st.tuples(st.integers(0, 10_000), st.floats(-1, 1e6))))
def test_whatever_is_measured_it_is_a_number_of_at_least_0(answers: list[tuple[int, float]]) -> None:
    """Also for answers without tokens or time."""
    spread = PaceSpread()
    for tokens, streamed_s in answers:
        spread.ended(tokens, streamed_s)
        assert 0 <= spread.ratio < math.inf
