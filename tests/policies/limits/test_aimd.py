"""The proposals of AIMD."""

from __future__ import annotations

import pytest
from intervals import interval

from headway_policies.limits.aimd import Aimd
from headway_policies.limits.limit import LimitSettings

AIM_S = 0.092
AIMD = Aimd(LimitSettings(inter_token_slo_ms=100), 16)


@pytest.mark.parametrize(
    ("ratio", "proposed"),
    [(0.3, 36), (0.74, 36), (0.8, 33), (0.93, 33), (0.95, 32), (1.05, 32), (1.07, 29), (1.5, 21), (9, 16)],
)
def test_it_adds_a_little_and_cuts_much(ratio: float, proposed: int) -> None:
    """From 32: an eighth more far under the set point, 1 under it, nothing near it; a share over it, half at most."""
    assert AIMD.propose(interval(32, ratio * AIM_S), 32) == proposed


def test_a_cut_starts_from_what_is_taken() -> None:
    """Of 64 allowed and 20 taken a breach leaves fewer than 20."""
    assert AIMD.propose(interval(20, 1.25 * AIM_S), 64) == 16


def test_a_cut_is_not_repeated_before_it_shows() -> None:
    """A cut is of the seats taken: while as many are still taken, the same time between tokens asks for no other."""
    first = AIMD.propose(interval(30, 2 * AIM_S), 30)
    assert AIMD.propose(interval(30, 2 * AIM_S), first) == first == 15


def test_nothing_seen_nothing_changed() -> None:
    """Without a time between tokens the limit stays."""
    assert AIMD.propose(interval(32, None), 32) == 32
