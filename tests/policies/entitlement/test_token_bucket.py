"""The token bucket: its bound over every interval, the wait it names, debt, and another rate."""

from __future__ import annotations

from itertools import accumulate
from math import inf, isinf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.entitlement import TokenBucket

#: Pauses before each step, in seconds, and what is asked for.
steps = st.lists(st.tuples(st.floats(0, 40), st.floats(0, 150)), min_size=1, max_size=40)
rates = st.floats(0.01, 50)
bursts = st.floats(1, 100)


def take(bucket: TokenBucket, amount: float, now_s: float) -> float:
    """Take the amount and return 0, or take nothing and return the seconds until it fits; infinite: never."""
    wait_s = bucket.wait_s(amount, now_s)
    if not wait_s:
        bucket.charge(amount)
    return wait_s


def largest_excess(times_s: list[float], amounts: list[float], rate_per_s: float) -> float:
    """The most that any interval has of these amounts beyond its length times the rate."""
    return max(
        sum(amounts[first : last + 1]) - rate_per_s * (times_s[last] - times_s[first])
        for first in range(len(amounts))
        for last in range(first, len(amounts))
    )


@given(steps=steps, rate_per_s=rates, burst=bursts)
def test_no_interval_has_more_than_its_rate_and_one_burst(
    steps: list[tuple[float, float]], rate_per_s: float, burst: float
) -> None:
    """Whatever is asked for and when: what is taken in t seconds is at most rate * t + burst."""
    bucket = TokenBucket(rate_per_s, burst)
    times_s = list(accumulate(pause_s for pause_s, _ in steps))
    taken = [0.0 if take(bucket, amount, now_s) else amount for now_s, (_, amount) in zip(times_s, steps, strict=True)]
    assert largest_excess(times_s, taken, rate_per_s) <= burst * (1 + 1e-6)


@given(steps=steps, rate_per_s=rates, burst=bursts, used=st.lists(st.floats(0, 1), min_size=40, max_size=40))
def test_what_is_given_back_can_be_taken_again_and_no_more(
    steps: list[tuple[float, float]], rate_per_s: float, burst: float, used: list[float]
) -> None:
    """The bound holds for what was taken less what was given back."""
    bucket = TokenBucket(rate_per_s, burst)
    times_s: list[float] = []
    net: list[float] = []
    now_s = 0.0
    for (pause_s, amount), ratio in zip(steps, used, strict=False):
        now_s += pause_s
        if not take(bucket, amount, now_s):
            times_s += [now_s, now_s + pause_s]
            net += [amount, amount * ratio - amount]
            now_s += pause_s
            bucket.give_back(amount - amount * ratio, now_s)
        assert bucket.remaining(now_s) <= burst
    if net:
        assert largest_excess(times_s, net, rate_per_s) <= burst * (1 + 1e-6)


@given(steps=steps, rate_per_s=rates, burst=bursts)
def test_the_wait_it_names_is_the_shortest_that_is_enough(
    steps: list[tuple[float, float]], rate_per_s: float, burst: float
) -> None:
    """After that wait the amount fits; after half of it, it does not."""
    bucket, now_s = TokenBucket(rate_per_s, burst), 0.0
    for pause_s, amount in steps:
        now_s += pause_s
        wait_s = take(bucket, amount, now_s)
        if wait_s and not isinf(wait_s):
            assert take(bucket, amount, now_s + wait_s / 2) > 0
            now_s += wait_s
            assert take(bucket, amount, now_s) == 0


def test_it_holds_a_minute_unless_the_burst_is_stated() -> None:
    """Two a second are 120 at once, and the next one half a second later."""
    bucket = TokenBucket(2.0)
    assert [take(bucket, 1, 5.0) for _ in range(120)] == [0.0] * 120
    assert take(bucket, 1, 5.0) == pytest.approx(0.5)
    assert bucket.full_in_s(5.0) == pytest.approx(60.0)
    assert TokenBucket(2.0, 7.0).remaining(0.0) == 7.0


def test_what_does_not_fit_takes_nothing() -> None:
    """A refused amount leaves the bucket as it was; one above the burst never fits."""
    bucket = TokenBucket(1.0, 10.0)
    assert take(bucket, 4, 0.0) == 0
    assert take(bucket, 7, 0.0) == pytest.approx(1.0)
    assert take(bucket, 11, 0.0) == inf
    assert take(bucket, nan, 0.0) == inf
    assert bucket.remaining(0.0) == 6


def test_what_was_used_beyond_what_was_taken_is_owed() -> None:
    """Nothing fits, not even nothing, until the debt is paid."""
    bucket = TokenBucket(2.0, 10.0)
    assert take(bucket, 10, 0.0) == 0
    bucket.give_back(-6, 0.0)
    assert bucket.remaining(0.0) == -6
    assert take(bucket, 0, 0.0) == pytest.approx(3.0)
    assert take(bucket, 4, 0.0) == pytest.approx(5.0)
    assert take(bucket, 4, 5.0) == 0


def test_a_full_bucket_holds_no_more() -> None:
    """Neither a long pause nor what is given back makes more of it than its burst."""
    bucket = TokenBucket(1.0, 10.0)
    assert take(bucket, 3, 0.0) == 0
    bucket.give_back(9, 0.0)
    assert bucket.remaining(1e9) == 10


def test_a_clock_that_goes_back_refills_nothing() -> None:
    """Nor does it refill the same seconds twice once it goes on."""
    bucket = TokenBucket(1.0, 10.0)
    take(bucket, 10, 100.0)
    assert bucket.remaining(90.0) == 0
    assert bucket.remaining(95.0) == 5


@pytest.mark.parametrize(
    ("used", "burst", "left"),
    [(40, 200, 160), (40, 50, 10), (40, 30, 0), (100, 200, 100), (130, 200, 70), (130, 50, -30), (0, 50, 50)],
    ids=["raised", "lowered", "lowered below what is used", "raised when empty", "raised with a debt", "a debt stays",
         "unused"],
)  # fmt: skip
def test_another_rate_keeps_what_was_used(used: float, burst: float, left: float) -> None:
    """Of 100: what was used is used of the new burst too, and a smaller one makes no debt."""
    bucket = TokenBucket(1.0, 100.0)
    bucket.give_back(-used, 0.0)
    bucket.change(5.0, burst, 0.0)
    assert bucket.remaining(0.0) == left
    assert bucket.remaining(1.0) == min(left + 5, burst)


@pytest.mark.parametrize(("rate_per_s", "burst"), [(0, 1), (1, 0), (-1, 1), (inf, 1), (1, inf), (nan, 1), (1, nan)])
def test_a_rate_or_burst_that_is_none_is_refused(rate_per_s: float, burst: float) -> None:
    """At the start and later alike, and then nothing has changed."""
    with pytest.raises(ValueError, match="above 0"):
        TokenBucket(rate_per_s, burst)
    bucket = TokenBucket(1.0, 2.0)
    with pytest.raises(ValueError, match="above 0"):
        bucket.change(rate_per_s, burst, 0.0)
    assert (bucket.rate_per_s, bucket.burst, bucket.remaining(0.0)) == (1.0, 2.0, 2.0)
