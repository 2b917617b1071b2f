"""The proposals of the noisy binary search."""

from __future__ import annotations

from collections.abc import Callable

from intervals import interval

from headway_policies.limits.limit import LimitSettings
from headway_policies.limits.sla_search import SlaSearch

AIM_S = 0.092


def search(fixed: int = 16, **settings: int) -> SlaSearch:
    return SlaSearch(LimitSettings(policy="sla", inter_token_slo_ms=100, **settings), fixed)


def settled(time_s: Callable[[int], float], policy: SlaSearch, seats: int = 16) -> list[int]:
    """The last twenty of a hundred proposals, each in force when the next is made."""
    seen = []
    for _ in range(100):
        seats = max(1, policy.propose(interval(seats, time_s(seats)), seats))
        seen.append(seats)
    return seen[-20:]


def test_it_finds_the_number_that_the_slo_allows() -> None:
    """With 30 ms and 2 ms a seat it stays within a fifth of 31, from below and from above."""
    for start in (2, 200):
        assert all(25 <= seats <= 37 for seats in settled(lambda seats: 0.03 + 0.002 * seats, search(start), start))


def test_it_can_find_a_few_seats_only() -> None:
    """With 20 ms a seat it settles under 6, which the paper's constants could never."""
    assert all(1 <= seats <= 6 for seats in settled(lambda seats: 0.02 * seats, search(64), 64))


def test_too_fast_moves_the_low_mark_up_to_what_runs_and_no_further() -> None:
    """The min of the second branch: from marks at 16 with 16 running (alpha 4, delta 2) low 12 and high 18 give 15.

    With max for min low would be 16, above its place, and the limit 17.
    """
    assert search(16).propose(interval(16, 0.5 * AIM_S), 16) == 15


def test_too_slow_moves_the_high_mark_down_to_what_runs() -> None:
    """From marks at 16 with 16 running (alpha 4, delta 2): high 20, low 14 give 17; again: high 18, low 12 give 15."""
    policy = search(16)
    assert [policy.propose(interval(16, 2 * AIM_S), 16) for _ in range(2)] == [17, 15]


def test_on_the_mark_it_stays() -> None:
    """At the set point the marks stand half an alpha to either side of what runs."""
    assert search(16).propose(interval(24, AIM_S), 24) == 24


def test_it_reaches_the_most_and_the_floor() -> None:
    """An engine that is never slow gets all, one that always is gets the least."""
    assert min(settled(lambda seats: 0.01, search(16, max_seats=40), 40)) >= 40
    assert max(settled(lambda seats: 1.0, search(16, min_seats=3), 16)) <= 6


def test_nothing_seen_nothing_changed() -> None:
    """Without a time between tokens the limit stays."""
    assert search(16).propose(interval(12, None), 12) == 12
