"""The conformance suite of limits passes what conforms, and catches what does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
from tiers import LONG

from headway_policies import FixedLimit, Limit, Signals
from headway_policies.conformance.limits import RULES, check_limit, check_limit_policy, violations
from headway_policies.limits.aimd import Aimd
from headway_policies.limits.governor import Fixed, LimitPolicy, make_limit
from headway_policies.limits.limit import Interval, LimitSettings
from headway_policies.limits.model_fit import ModelFit
from headway_policies.limits.sla_search import SlaSearch

#: The histories of a policy; the long form plays as many as a user's own test does.
SEEDS = range(10 if LONG else 2)
SETTINGS = [
    {"policy": policy, "memory_aware": memory_aware, **more}
    for policy in ("fixed", "aimd", "sla", "model")
    for memory_aware in (False, True)
    for more in ({}, {"shadow": True}, {"min_seats": 4, "max_seats": 64})
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_every_limit_conforms(settings: dict[str, object]) -> None:
    """Each policy, with and without memory, in shadow and within narrow bounds, from one seat and from many."""
    for fixed in (1, 16, 500):
        check_limit(
            partial(make_limit, LimitSettings.model_validate(settings), fixed, 256), seeds=range(2 if LONG else 1)
        )


@pytest.mark.parametrize("policy", [Fixed, Aimd, SlaSearch, ModelFit])
def test_every_policy_conforms(policy: Callable[[LimitSettings, int], LimitPolicy]) -> None:
    """Each policy proposes whole numbers and does well on the rails."""
    check_limit_policy(policy, SEEDS)


@dataclass
class Plain:
    """A limit that keeps every promise; each of those below breaks one."""

    allowed: int = 16
    why: str = "policy"

    def seats(self, now_s: float) -> int:
        return self.allowed

    def proposed(self, now_s: float) -> int:
        return self.allowed

    def observe(self, signals: Signals, now_s: float) -> None:
        pass


class Zero(Plain):
    def observe(self, signals: Signals, now_s: float) -> None:
        self.allowed = max(0, 16 - signals.load.preemptions * 6)


class Half(Plain):
    def observe(self, signals: Signals, now_s: float) -> None:
        self.allowed = 2.5  # type: ignore[assignment]  # the defect


class Restless(Plain):
    def seats(self, now_s: float) -> int:
        self.allowed += 1
        return self.allowed


class Greedy(Plain):
    def observe(self, signals: Signals, now_s: float) -> None:
        self.allowed += signals.limited


class Shy(Plain):
    def observe(self, signals: Signals, now_s: float) -> None:
        self.allowed = max(1, self.allowed - signals.load.preemptions)


class ProposesNone(Plain):
    def proposed(self, now_s: float) -> int:
        return 0


@pytest.mark.parametrize(
    ("wrong", "issue"),
    [
        (Zero, "at-least-one: .* expected a whole number of at least 1, got (-2|0)$"),
        (Half, "at-least-one: .* got 2.5$"),
        (Restless, r"repeatable: .*: expected \(17, 17\) again, got \(18, 18\)$"),
        (Greedy, "no-growth-in-breach: .*, breach, step 31: expected [0-9]+ seats or fewer, got [0-9]+$"),
        (Shy, "recovers: .* expected [0-9]+ seats or more, with [0-9]+ before the storm, got 1$"),
        (lambda: Plain(why="because"), "known-reason: .* got 'because'$"),
        (ProposesNone, "at-least-one: .* got 0$"),
    ],
    ids=["zero", "a half", "restless", "grows in a breach", "never comes back", "unknown reason", "proposes none"],
)
def test_a_limit_that_breaks_a_promise_is_caught(wrong: Callable[[], Limit], issue: str) -> None:
    """One broken promise each, named in the issue."""
    with pytest.raises(AssertionError, match=issue):
        check_limit(wrong)


def test_a_limit_that_keeps_every_promise_passes() -> None:
    """So each of those above is caught for what it does otherwise."""
    check_limit(Plain, SEEDS)


def test_a_limit_that_raises_is_caught() -> None:
    """Its error comes through."""

    class Raises(Plain):
        def observe(self, signals: Signals, now_s: float) -> None:
            if signals.load.inter_token_s is None:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        check_limit(Raises)


class Proposes:
    """A policy that always proposes the same."""

    def __init__(self, proposal: object) -> None:
        self._proposal = proposal

    def propose(self, seen: Interval, allowed: int) -> int:
        return self._proposal  # type: ignore[return-value]  # the defect


class DividesByTime:
    def propose(self, seen: Interval, allowed: int) -> int:
        return int(1 / seen.inter_token_s)  # type: ignore[operator]  # the defect


class NeverUp:
    def propose(self, seen: Interval, allowed: int) -> int:
        return min(allowed, int(seen.seats_taken))


@pytest.mark.parametrize(
    ("make", "issue"),
    [
        (lambda: Proposes(2.5), "whole-number: .* got 2.5$"),
        (lambda: Proposes(None), "whole-number: .* got None$"),
        (DividesByTime, r"never-raises: .* from propose\(Interval\(.*inter_token_s=None.*, got TypeError: "),
        (NeverUp, "recovers: .* after the storm, step 720: expected [0-9]+ seats or more"),
    ],
    ids=["a half", "nothing", "raises", "never grows again"],
)
def test_a_policy_that_breaks_a_promise_is_caught(make: Callable[[], LimitPolicy], issue: str) -> None:
    """The rails put up with it; the suite does not."""
    with pytest.raises(AssertionError, match=issue):
        check_limit_policy(lambda limiting, fixed: make(), SEEDS)


def test_a_rule_that_is_no_matter_of_safety_may_be_accepted() -> None:
    """The others are checked all the same, and none of safety can be accepted."""
    check_limit(Shy, SEEDS, accept=["recovers"])
    check_limit(Greedy, SEEDS, accept=["no-growth-in-breach"])
    check_limit_policy(lambda limiting, fixed: NeverUp(), SEEDS, accept=["recovers"])
    with pytest.raises(AssertionError, match="no-growth-in-breach"):
        check_limit(Greedy, accept=["recovers"])
    with pytest.raises(AssertionError, match="at-least-one"):
        check_limit(Zero, accept=RULES)


def test_every_rule_that_is_broken_is_found_once() -> None:
    """A policy with two faults has two violations."""

    class Faulty(NeverUp):
        def propose(self, seen: Interval, allowed: int) -> int:
            return float(super().propose(seen, allowed))  # type: ignore[return-value]  # the defect

    found = [one.rule.name for one in violations(lambda limiting, fixed: Faulty(), SEEDS)]
    assert sorted(found) == ["recovers", "whole-number"]


def test_a_fixed_limit_conforms() -> None:
    """The simplest of all."""
    check_limit(lambda: FixedLimit(8), SEEDS)
