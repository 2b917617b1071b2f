"""The time of a check does not show how much of a key was guessed right."""

from __future__ import annotations

import gc
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import groupby
from math import erfc, sqrt
from random import Random
from time import perf_counter_ns

import pytest
from tiers import long_form

from headway.api.routes import Role
from headway.http.access import ApiKeys
from headway.http.admin.tokens import Tokens
from headway.keys import Key, KeyRing, digest_of
from headway_policies.entitlement import Entitlement

RIGHT = "hw-" + "r" * 61
#: Of the wrong characters of a key.
WRONG = "abcdefghijklmnop"
HALF = len(RIGHT) // 2
CREATED = datetime(2026, 1, 1, tzinfo=UTC)
TRIES = 10_000
ROUNDS = 3

Check = Callable[[str], object]


def ring() -> Check:
    """The keys file."""
    found = KeyRing([Key("one", digest_of(RIGHT), "acme", CREATED)], {"acme": Entitlement("acme")})
    return lambda key: found.entitlement_of(f"Bearer {key}", None, 0.0)


def of_vllm() -> Check:
    """The keys that vLLM was given."""
    return ApiKeys([RIGHT]).know


def tokens() -> Check:
    """The tokens of the admin API."""
    found = Tokens({RIGHT: Role.OPERATOR})
    return lambda key: found.role(f"Bearer {key}")


def one_by_one() -> Check:
    """A comparison that ends at the first wrong character: what this test has to notice."""
    return lambda key: all(a == b for a, b in zip(key, RIGHT, strict=True))


def times_ns(check: Check, random: Random) -> tuple[list[int], list[int]]:
    """The times of wrong keys whose first half is right, and of those that are wrong from the first character on.

    All are different, and made before, in a random order: where a text lies in memory shows in its time, and so does
    a digest that comes again.
    """
    wrong = ["".join(random.choices(WRONG, k=len(RIGHT))) for _ in range(TRIES)]
    keys = [(one, False) for one in wrong] + [(RIGHT[:HALF] + one[HALF:], True) for one in wrong]
    random.shuffle(keys)
    keys = [(f"{key} ".rstrip(), is_near) for key, is_near in keys]
    times: dict[bool, list[int]] = {True: [], False: []}
    gc.disable()
    try:
        for key, is_near in keys:
            began_ns = perf_counter_ns()
            check(key)
            took_ns = perf_counter_ns() - began_ns
            times[is_near].append(took_ns)
    finally:
        gc.enable()
    return times[True], times[False]


def p_value(first: list[int], second: list[int]) -> float:
    """Of the Mann-Whitney test, by its normal approximation with ties: that both are of one distribution."""
    every = sorted([(one, True) for one in first] + [(one, False) for one in second])
    rank, ranks, ties = 1, 0.0, 0
    for _, group in groupby(every, key=lambda one: one[0]):
        of_first = [is_first for _, is_first in group]
        ranks += sum(of_first) * (rank + (len(of_first) - 1) / 2)
        ties += len(of_first) ** 3 - len(of_first)
        rank += len(of_first)
    n, m = len(first), len(second)
    u = ranks - n * (n + 1) / 2
    deviation = sqrt(n * m / 12 * (n + m + 1 - ties / ((n + m) * (n + m - 1))))
    return erfc(abs(u - n * m / 2) / deviation / sqrt(2)) if deviation else 1.0


def shows(make: Check) -> bool:
    """Whether each of several rounds tells both keys apart; one alone may by chance."""
    return all(p_value(*times_ns(make, Random(number))) <= 0.01 for number in range(ROUNDS))


@long_form("a few nanoseconds on a machine that does other things")
@pytest.mark.parametrize("make", [ring, of_vllm, tokens])
def test_a_wrong_key_takes_as_long_whatever_of_it_is_right(make: Callable[[], Check]) -> None:
    """Mann-Whitney, 20,000 tries a round."""
    assert not shows(make())


@long_form("only there it has something to show")
def test_a_comparison_that_ends_early_is_noticed() -> None:
    """So the test above can fail."""
    assert shows(one_by_one())
