"""What a limit has learnt outlives it: another one starts there, and corrects it like any limit."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from intervals import show, signals
from simulated_engine import LIGHT, SimulatedEngine, Step, aim

from headway_policies import FixedLimit, Limit
from headway_policies.limits import Governor, Interval, Learnt, LimitSettings, make_limit


def limit_of(policy: str, seats: int = 4, ceiling: int | None = None, **settings: object) -> Limit:
    return make_limit(LimitSettings.model_validate({"policy": policy, **settings}), seats, ceiling)


def learnt_by(policy: str) -> Learnt:
    """What a limit keeps after two minutes of a light load on the simulated engine."""
    limit = limit_of(policy)
    SimulatedEngine(limit, lambda now_s: LIGHT, lambda now_s: 1.0, 0.0).run(120)
    learnt = limit.learnt()
    assert learnt is not None
    return learnt


def first_seconds(limit: Limit, slowness: float = 1.0) -> list[Step]:
    return SimulatedEngine(limit, lambda now_s: LIGHT, lambda now_s: slowness, 0.0).run(10)


@pytest.mark.parametrize("policy", ["aimd", "sla", "model"])
def test_a_limit_starts_where_another_one_was(policy: str) -> None:
    """From its first step, where one without a memory starts at the preset's four seats and climbs."""
    learnt, limit, cold = learnt_by(policy), limit_of(policy), limit_of(policy)
    limit.recall(learnt)
    assert (limit.seats(0.0), limit.why) == (learnt.seats, "recalled")
    assert learnt.seats == pytest.approx(aim(LIGHT), rel=0.2)
    assert limit.learnt() is None, "it has learnt nothing by itself yet"
    warm = [one.limit for one in first_seconds(limit)]
    assert min(warm) >= 0.75 * learnt.seats
    assert next(one.limit for one in first_seconds(cold)) == 4


def test_an_engine_that_is_slower_now_is_followed_at_once() -> None:
    """The learnt limit is a start: at half the speed the limit falls within ten seconds, without the pacing's help."""
    limit = limit_of("model", pace_prompts=False)
    limit.recall(learnt_by("model"))
    steps = SimulatedEngine(limit, lambda now_s: LIGHT, lambda now_s: 1.75, 0.0).run(20)
    assert max(one.limit for one in steps if one.now_s > 10) <= 1.25 * aim(LIGHT, 1.75)


def test_the_model_goes_on_with_its_costs() -> None:
    """The same numbers come out as went in, before a sample has changed them."""
    learnt, limit = learnt_by("model"), limit_of("model")
    limit.recall(learnt)
    policy = limit._policy  # type: ignore[attr-defined]  # a governor
    assert policy.learnt() == learnt.policy
    assert set(learnt.policy) == {"base_s", "sequence_s", "prefill_token_s", "prefill_tokens_per_sequence"}


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"base_s": 0.01},
        {"base_s": math.nan, "sequence_s": 0.001, "prefill_token_s": 0.0, "prefill_tokens_per_sequence": 1.0},
        {"base_s": 0.01, "sequence_s": -0.001, "prefill_token_s": 0.0, "prefill_tokens_per_sequence": 1.0},
        {"base_s": 0.0, "sequence_s": 0.0, "prefill_token_s": 0.0, "prefill_tokens_per_sequence": 1.0},
    ],
    ids=["none", "one alone", "no number", "negative", "all zero"],
)
def test_numbers_that_make_no_model_are_ignored(broken: dict[str, float]) -> None:
    """The seats are taken over, and the model is fitted from its beginning."""
    limit = limit_of("model")
    limit.recall(Learnt(20, broken))
    assert limit.seats(0.0) == 20
    assert limit._policy.learnt() == {}  # type: ignore[attr-defined]  # a governor


@pytest.mark.parametrize("broken", [{"low": 9.0}, {"low": 9.0, "high": 5.0}], ids=["one mark", "crossed"])
def test_marks_that_make_no_search_are_ignored(broken: dict[str, float]) -> None:
    """The search begins around the preset's number, as without them."""
    limit = limit_of("sla")
    limit.recall(Learnt(20, broken))
    assert limit._policy.learnt() == {"low": 4.0, "high": 4.0}  # type: ignore[attr-defined]  # a governor


@pytest.mark.parametrize(("kept", "seats"), [(200, 32), (1, 2)], ids=["above the ceiling", "below the least"])
def test_the_bounds_of_the_new_limit_hold(kept: int, seats: int) -> None:
    """An engine with fewer seats, a preset with a higher least number."""
    limit = limit_of("aimd", ceiling=32, min_seats=2)
    limit.recall(Learnt(kept))
    assert limit.seats(0.0) == seats


def test_a_limit_that_has_learnt_by_itself_recalls_nothing() -> None:
    """A late recall would undo what it has seen of this very engine."""
    limit = limit_of("aimd", seats=16)
    show(limit, signals(16), 0.0, 2.0)
    before = limit.seats(2.0)
    limit.recall(Learnt(40))
    assert limit.seats(2.0) == before


class Faulty:
    """A custom policy that keeps numbers, and fails at it."""

    def __init__(self, settings: LimitSettings, fixed: int) -> None:
        self.keeps: object = {}

    def propose(self, seen: Interval, allowed: int) -> int:
        return 10

    def learnt(self) -> Mapping[str, float]:
        if self.keeps is None:
            raise RuntimeError("nothing")
        return self.keeps  # type: ignore[return-value]  # a policy may be wrong

    def recall(self, learnt: Mapping[str, float]) -> None:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("keeps", "expected"), [(None, {}), ({"a": "x"}, {}), ({"a": math.nan, "b": 1}, {"b": 1.0})], ids=str
)
def test_a_custom_policy_that_fails_at_it_costs_only_its_own_numbers(keeps: object, expected: dict[str, float]) -> None:
    """The seats are kept and taken over all the same."""
    settings = LimitSettings(policy="aimd")
    policy = Faulty(settings, 4)
    policy.keeps = keeps
    limit = Governor(policy, settings, 4, None)
    limit.recall(Learnt(12))
    assert limit.seats(0.0) == 12
    show(limit, signals(12), 0.0, 2.0)
    assert limit.learnt() == Learnt(10, expected)


def test_a_fixed_limit_has_nothing_to_keep() -> None:
    """Its number is the preset's."""
    limit = FixedLimit(8)
    limit.recall(Learnt(20))
    assert (limit.learnt(), limit.seats(0.0)) == (None, 8)


def test_a_limit_before_its_first_decision_has_nothing_to_keep() -> None:
    """The preset's seats are no knowledge of the engine."""
    assert limit_of("model").learnt() is None
