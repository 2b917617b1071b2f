"""The share of failures over a window, read from two counts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.fallback.error_rate import ErrorRate


def test_it_is_the_share_of_the_window_and_forgets() -> None:
    """Half of the last ten seconds; nothing once the failures are older than that."""
    share = ErrorRate()
    looks = [(0.0, 0, 0), (1.0, 5, 10), (9.0, 5, 10), (10.5, 5, 10), (11.5, 5, 30)]
    found = [share.update(failed, ended, now_s, window_s=10.0, min_ended=10) for now_s, failed, ended in looks]
    assert found == [0.0, 0.5, 0.5, 0.5, 0.0]


def test_what_was_before_the_first_look_does_not_count() -> None:
    """A server that failed yesterday is not in trouble now."""
    share = ErrorRate()
    assert share.update(1000, 1000, 5.0, window_s=10.0, min_ended=1) == 0.0


@pytest.mark.parametrize(("ended", "share"), [(9, 0.0), (10, 0.5), (11, 5 / 11)])
def test_exactly_the_least_is_enough(ended: int, share: float) -> None:
    """One ending fewer than ``least`` is no share; exactly as many are one; those before do not count."""
    seen = ErrorRate()
    seen.update(3, 100, 0.0, window_s=10.0, min_ended=10)
    assert seen.update(3 + 5, 100 + ended, 1.0, window_s=10.0, min_ended=10) == pytest.approx(share)


def test_nothing_ended_is_no_share() -> None:
    """Zero of zero, and failures that were counted before."""
    seen = ErrorRate()
    assert seen.update(0, 0, 0.0, window_s=10.0, min_ended=1) == 0.0
    assert seen.update(0, 0, 1.0, window_s=10.0, min_ended=1) == 0.0


@pytest.mark.parametrize(
    ("now_s", "share"),
    [(math.nextafter(11.0, 0), 5 / 20), (11.0, 0 / 10), (math.nextafter(11.0, 12), 0 / 10)],
    ids=["just inside", "exactly the window", "just outside"],
)
def test_the_window_ends_exactly_where_it_says(now_s: float, share: float) -> None:
    """A failure up to a look as old as the window is forgotten; a moment before it still counts."""
    seen = ErrorRate()
    for at_s, failed, ended in ((0.0, 0, 0), (1.0, 5, 10)):
        seen.update(failed, ended, at_s, window_s=10.0, min_ended=1)
    assert seen.update(5, 20, now_s, window_s=10.0, min_ended=1) == share


@pytest.mark.parametrize(
    ("gap_s", "share"),
    [(math.nextafter(1.0, 0), 5 / 20), (1.0, 0 / 10), (math.nextafter(1.0, 2), 0 / 10)],
    ids=["just less", "exactly one part", "just more"],
)
def test_a_window_is_kept_in_64_samples(gap_s: float, share: float) -> None:
    """A look is kept once a part of the window has passed since the last: exactly a 64th is enough."""
    seen = ErrorRate()
    for at_s, failed, ended in ((0.0, 0, 0), (gap_s, 5, 10)):
        seen.update(failed, ended, at_s, window_s=64.0, min_ended=1)
    assert seen.update(5, 20, 66.0, window_s=64.0, min_ended=1) == share


@given(steps=st.lists(st.tuples(st.floats(0, 3), st.integers(0, 20), st.integers(0, 20)), max_size=300))
def test_it_is_a_share_and_keeps_little(steps: list[tuple[float, int, int]]) -> None:
    """Between 0 and 1, and a bounded memory, however often it is read."""
    share, now_s, failed, ended = ErrorRate(), 0.0, 0, 0
    for passed_s, bad, good in steps:
        now_s, failed, ended = now_s + passed_s, failed + bad, ended + bad + good
        assert 0.0 <= share.update(failed, ended, now_s, window_s=10.0, min_ended=1) <= 1.0
    assert len(share._seen) <= 67
