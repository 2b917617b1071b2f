"""The bounds that the governor sets on every proposal."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from intervals import show, signals

from headway_policies import FixedLimit, Limit, Signals
from headway_policies.limits import governor
from headway_policies.limits.aimd import Aimd
from headway_policies.limits.fit.engine_fit import EngineFit, Unloaded
from headway_policies.limits.governor import WHYS, Fixed, Governor, make_limit
from headway_policies.limits.limit import Interval, LimitSettings
from headway_policies.limits.model_fit import ModelFit
from headway_policies.limits.sla_search import SlaSearch

SLOW_S = 0.08  # over the SLO of 75 ms


@dataclass
class Says:
    """A policy that proposes given numbers."""

    seats: float = 16
    asked: list[tuple[Interval, int]] = field(default_factory=list)

    def propose(self, seen: Interval, allowed: int) -> int:
        self.asked.append((seen, allowed))
        return self.seats  # type: ignore[return-value]  # a policy may be wrong


class CustomPolicy:
    """A policy as a user would name it in a preset."""

    def __init__(self, settings: LimitSettings, fixed: int) -> None:
        self.made_with = (settings, fixed)

    def propose(self, seen: Interval, allowed: int) -> int:
        return 3


def governed(policy: Says, fixed: int = 16, ceiling: int | None = None, **settings: object) -> Governor:
    return Governor(policy, LimitSettings.model_validate({"policy": "aimd", **settings}), fixed, ceiling)


def after(limit: Limit, step: Signals) -> int:
    """The limit after a second of such steps: one decision."""
    show(limit, step, 0.0, 1.0)
    return limit.seats(1.0)


def test_before_the_first_interval_the_preset_holds() -> None:
    """A new limit is the preset's number."""
    limit = governed(Says(40))
    assert (limit.seats(0.0), limit.why) == (16, "start")


@pytest.mark.parametrize(
    ("proposal", "allowed", "why"), [(18, 18, "policy"), (40, 33, "step"), (12, 12, "policy"), (1, 8, "step")]
)
def test_a_step_is_bounded(proposal: int, allowed: int, why: str) -> None:
    """Up to twice as many as are taken and one, half down, in one decision; by more than a quarter as requests wait."""
    limit = governed(Says(proposal))
    assert after(limit, signals(16)) == allowed
    assert limit.why == why


def test_many_steps_arrive() -> None:
    """Several steps may do what a single one may not: the proposal is reached."""
    limit = governed(Says(200))
    seats = 16
    for number in range(10):
        show(limit, signals(seats), number, 1.0)
        seats = limit.seats(number + 1)
    assert (seats, limit.why) == (200, "policy")


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (signals(16, SLOW_S), "slo"),
        (signals(16, limited=False), "idle"),
        (signals(16, kv_usage_ratio=0.96), "kv"),
        (signals(16, preemptions=1), "preemption"),
    ],
    ids=["breach", "not limited", "kv near full", "preempted"],
)
def test_growth_needs_every_reason(step: Signals, why: str) -> None:
    """Whatever a policy proposes: none over the SLO, none without need, none without memory."""
    limit = governed(Says(40))
    assert after(limit, step) <= 16
    assert limit.why == why


@pytest.mark.parametrize(("inter_token_s", "allowed"), [(SLOW_S, 12), (0.04, 16)], ids=["breach", "kept"])
def test_without_demand_only_a_breach_moves_it(inter_token_s: float, allowed: int) -> None:
    """No request waits: a fall is followed while the SLO is broken, and not while it is kept."""
    assert after(governed(Says(12)), signals(16, inter_token_s, limited=False)) == allowed


def test_a_breach_beats_load_for_as_long_as_it_lasts() -> None:
    """A minute over the SLO with a full queue: not one seat more."""
    limit = governed(Says(40))
    for number in range(60):
        show(limit, signals(16, SLOW_S), number, 1.0)
        assert limit.seats(number + 1.0) <= 16


def on_engine(prefill_token_s: float, **more: float) -> Governor:
    """A limit of an engine of 30 ms a step whose KV cache holds a thousand tokens."""
    engine = EngineFit()
    engine.unloaded = Unloaded(token_s=0.03, prefill_token_s=prefill_token_s)
    settings = LimitSettings.model_validate({"policy": "aimd", "memory_aware": True, **more})
    return Governor(Says(16), settings, 16, None, engine)


FULL: dict[str, float] = {"kv_usage_ratio": 0.99, "kv_capacity_tokens": 1000}


def test_a_cheap_preemption_is_better_than_an_empty_part_of_the_cache() -> None:
    """62 tokens of a sequence are computed anew in a millisecond: neither the full cache nor one preemption in each
    step is a reason to fall; a hundred in each step take all of the time. Where a prompt token takes a millisecond,
    the cache is kept from being full, and so it is where the preset sets a reserve.
    """
    cheap = on_engine(prefill_token_s=1.6e-5)
    assert after(cheap, signals(16, **FULL)) == 16
    assert after(on_engine(1.6e-5), signals(16, **FULL, preemptions=1)) == 16
    thrashing = on_engine(1.6e-5)
    assert after(thrashing, signals(16, **FULL, preemptions=100)) < 16
    assert thrashing.why == "preemption"
    dear = on_engine(prefill_token_s=1e-3)
    assert after(dear, signals(16, **FULL)) < 16
    assert dear.why == "kv"
    assert after(on_engine(1e-3), signals(16, **FULL, preemptions=1)) < 16
    assert after(on_engine(prefill_token_s=0.0), signals(16, **FULL, preemptions=1)) < 16, "the cost is not known"
    assert after(on_engine(1.6e-5, kv_reserve_ratio=0.05), signals(16, **FULL)) < 16


@pytest.mark.parametrize("trouble", [{"kv_usage_ratio": 0.96}, {"preemptions": 1}], ids=["kv", "preemption"])
def test_trouble_with_memory_makes_it_fall_again_and_again(trouble: dict[str, float]) -> None:
    """A tenth at a time, each time that the last fall has taken effect, down to the floor and no further."""
    limit = governed(Says(40), min_seats=5)
    seen = [16]
    for number in range(30):
        show(limit, signals(seen[-1], **trouble), number, 1.0)
        seen.append(limit.seats(number + 1.0))
    assert list(dict.fromkeys(seen)) == [16, 14, 12, 10, 9, 8, 7, 6, 5]
    assert limit.why == "min_seats"


def test_a_fall_is_not_repeated_before_it_shows() -> None:
    """While more seats are taken than allowed, preemptions of the old crowd cut no deeper."""
    limit = governed(Says(40))
    for number in range(10):
        show(limit, signals(16, preemptions=1), number, 1.0)
    assert limit.seats(10.0) == 14


def test_after_a_fall_growth_waits() -> None:
    """Up again a moment after a fall would be a swing: the limit settles first, then grows."""
    limit = governed(Says(40))
    show(limit, signals(16, preemptions=1), 0.0, 0.8)
    show(limit, signals(14), 0.8, 0.8)
    assert (limit.seats(1.6), limit.why) == (14, "settling")
    show(limit, signals(14), 1.6, 1.6)
    assert limit.seats(3.2) > 14


@pytest.mark.parametrize(
    ("settings", "ceiling", "proposal", "allowed", "why"),
    [
        ({"min_seats": 12}, None, 9, 12, "min_seats"),
        ({"max_seats": 20}, None, 24, 20, "ceiling"),
        ({}, 18, 24, 18, "ceiling"),
        ({"max_seats": 20}, 18, 24, 18, "ceiling"),
        ({"min_seats": 12}, 10, 16, 10, "ceiling"),
    ],
)
def test_bounds_hold(settings: dict[str, int], ceiling: int | None, proposal: int, allowed: int, why: str) -> None:
    """The preset's floor and most, and the engine's ceiling, which is above all."""
    limit = governed(Says(proposal), ceiling=ceiling, **settings)
    assert after(limit, signals(16)) == allowed
    assert limit.why == why


def test_the_kv_cache_is_a_ceiling_too() -> None:
    """With ``memory_aware``: 16 that hold 80 % of the cache leave room for 19 within the reserve, not for 24."""
    limit = governed(Says(24), memory_aware=True)
    assert after(limit, signals(16, kv_usage_ratio=0.8)) == 19
    assert limit.why == "kv"


def test_a_running_engine_that_falls_silent_gets_the_presets_number() -> None:
    """Stale after ten seconds of silence, and over with the next step."""
    limit = governed(Says(8))
    assert after(limit, signals(16)) == 8
    assert (limit.seats(10.8), limit.why) == (8, "policy")
    assert (limit.seats(11.0), limit.why) == (16, "stale")
    limit.observe(signals(8), 11.0)
    assert (limit.seats(11.0), limit.why) == (8, "policy")


def test_an_idle_engine_is_not_stale() -> None:
    """When nothing ran at the last signal, silence means nothing and what was learnt stays."""
    limit = governed(Says(8))
    after(limit, signals(16))
    limit.observe(signals(0, None), 1.0)
    assert limit.seats(10_000.0) == 8


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), None, "many"], ids=str)
def test_while_a_policy_fails_the_fixed_number_applies(wrong: float) -> None:
    """No number, or an exception: the preset's number holds, the reason says so, and the policy is asked again."""
    policy = Says(8)
    limit = governed(policy)
    show(limit, signals(16), 0.0, 1.0)
    policy.seats = wrong
    show(limit, signals(8), 1.0, 1.0)
    assert (limit.seats(2.0), limit.why) == (16, "failed")
    policy.seats = 12
    show(limit, signals(16), 2.0, 1.0)
    assert (limit.seats(3.0), limit.why) == (12, "policy")


@pytest.mark.parametrize("nonsense", [0, -5, 10**9])
def test_numbers_out_of_bounds_are_bounded(nonsense: int) -> None:
    """No proposal passes the floor or the step."""
    assert 8 <= after(governed(Says(nonsense)), signals(16)) <= 33


def test_shadow_shows_and_does_not_apply() -> None:
    """The preset's number is in force; the proposal is reported beside it, and goes on from there."""
    limit = governed(Says(12), shadow=True)
    show(limit, signals(16), 0.0, 5.0)
    assert (limit.seats(5.0), limit.proposed(5.0), limit.why) == (16, 12, "policy")


def test_a_policy_sees_the_interval_and_what_was_allowed() -> None:
    """Means of the steps, the limit before; asked once an interval, not once a step."""
    policy = Says(20)
    show(governed(policy), signals(16), 0.0, 1.6)
    assert [allowed for _, allowed in policy.asked] == [16, 20]
    assert policy.asked[0][0].running == 16


@pytest.mark.parametrize(
    ("policy", "made"), [("aimd", Aimd), ("sla", SlaSearch), ("model", ModelFit), ("theirs:CustomPolicy", CustomPolicy)]
)
def test_a_preset_names_its_policy(policy: str, made: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built-in ones by name, custom ones by import path, none registered anywhere."""
    monkeypatch.setattr("headway_policies.limits.governor.find_class", lambda path: CustomPolicy)
    limit = make_limit(LimitSettings(policy=policy), 16, None)
    assert isinstance(limit, Governor)
    assert type(limit._policy) is made


def test_a_user_policy_is_on_the_rails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy gets the settings and the preset's seats, and its 3 seats are reached by halves, not at once."""
    monkeypatch.setattr("headway_policies.limits.governor.find_class", lambda path: CustomPolicy)
    settings = LimitSettings(policy="theirs:CustomPolicy")
    limit = make_limit(settings, 16, None)
    assert isinstance(limit, Governor)
    assert isinstance(limit._policy, CustomPolicy)
    assert limit._policy.made_with == (settings, 16)
    assert after(limit, signals(16)) == 8


def test_a_fixed_limit_is_not_governed_unless_memory_is() -> None:
    """``fixed`` alone never moves; with ``memory_aware`` it falls where the cache is too small and comes back."""
    assert make_limit(LimitSettings(), 16, 8) == FixedLimit(16)
    limit = make_limit(LimitSettings(memory_aware=True), 16, None)
    assert isinstance(limit, Governor)
    assert isinstance(limit._policy, Fixed)
    assert after(limit, signals(16, kv_usage_ratio=0.99)) < 16


@pytest.mark.parametrize(("inter_token_s", "comes_back"), [(0.07, True), (SLOW_S, False)], ids=["in time", "late"])
def test_a_fixed_limit_that_follows_memory_keeps_the_objective(inter_token_s: float, comes_back: bool) -> None:
    """The limit has one to keep: after a fall the seats come back only while tokens come in time."""
    limit = make_limit(LimitSettings(memory_aware=True), 16, None)
    fallen = after(limit, signals(16, kv_usage_ratio=0.99))
    for number in range(1, 60):
        show(limit, signals(limit.seats(number), inter_token_s=inter_token_s), number, 1.0)
    assert (limit.seats(60.0) > fallen) is comes_back


def test_an_unknown_import_path_is_refused_at_once() -> None:
    """A class that is not there is an error when the limit is made."""
    with pytest.raises(ValueError, match="no_such_module"):
        make_limit(LimitSettings(policy="no_such_module:Limit"), 16, None)


def test_every_reason_is_explained() -> None:
    """The words of the code are the words of ``WHYS``, each with its meaning."""
    assert all(meaning for meaning in WHYS.values())
    assert {"fixed", "start", "policy", "stale", "failed", "slo", "kv", "preemption"} <= WHYS.keys()


def grows_between_intervals(inter_token_s: float, *, limited: bool = True, **load: float) -> list[int]:
    """The limits after each of the seven steps that follow a decision for 200 seats at 16, all seats always taken."""
    limit = governed(Says(200), ceiling=100)
    for number in range(8):
        limit.observe(signals(16), number / 100)
    assert (limit.seats(0.1), limit.why) == (33, "step")
    found = []
    for number in range(8, 15):
        limit.observe(signals(limit.seats(0.1), inter_token_s, limited=limited, **load), number / 100)
        found.append(limit.seats(0.1))
    return found


def test_between_its_decisions_it_goes_on_doubling_every_second_step() -> None:
    """While requests wait and tokens come in time: towards the proposal, and no further than the engine has seats."""
    assert grows_between_intervals(0.04) == [33, 67, 67, 100, 100, 100, 100]


@pytest.mark.parametrize(
    ("inter_token_s", "more"),
    [(SLOW_S, {}), (0.04, {"limited": False}), (0.04, {"preemptions": 1}), (0.04, {"kv_usage_ratio": 0.99})],
    ids=["over the SLO", "no request waits", "a preemption", "the KV cache is full"],
)
def test_it_does_not_go_on_where_it_might_not_grow(inter_token_s: float, more: dict[str, float]) -> None:
    """The next decision judges that."""
    assert grows_between_intervals(inter_token_s, **more) == [33] * 7


def test_it_waits_until_the_seats_of_the_last_step_are_taken() -> None:
    """Seats that were not tried teach nothing."""
    limit = governed(Says(200))
    for number in range(14):
        limit.observe(signals(16), number / 100)
    assert limit.seats(0.2) == 33


def test_a_request_that_takes_several_seats_together_is_waited_for_no_longer() -> None:
    """With two taken twice as many are five: one of eight would wait for ever beside a few others."""
    limit = governed(Says(12), fixed=5)
    assert after(limit, signals(2, next_seats=8)) == 10
    assert after(governed(Says(9), fixed=5), signals(2, next_seats=8)) == 9
    assert after(governed(Says(12), fixed=5), signals(2)) == 5


def test_such_a_request_need_not_wait_for_another_decision() -> None:
    """A proposal made without a queue is taken at the first step at which its seats lack."""
    limit = governed(Says(200))
    for number in range(8):
        limit.observe(signals(12, limited=False), number / 100)
    limit.observe(signals(12, next_seats=4), 0.08)
    assert limit.seats(0.1) == 16
    limit.observe(signals(12, next_seats=32), 0.09)
    assert limit.seats(0.1) == 44


def test_what_was_proposed_without_a_queue_is_taken_as_soon_as_a_request_waits() -> None:
    """A burst after an interval in which none did: twice the seats at the first step that they are all taken."""
    limit = governed(Says(200))
    for number in range(8):
        limit.observe(signals(12, limited=False), number / 100)
    assert (limit.seats(0.1), limit.why) == (16, "idle")
    limit.observe(signals(12, limited=True), 0.08)
    assert limit.seats(0.1) == 16
    limit.observe(signals(16, SLOW_S, limited=True), 0.09)
    assert limit.seats(0.1) == 16
    limit.observe(signals(16, limited=True), 0.1)
    assert (limit.seats(0.1), limit.why) == (33, "step")


def test_between_its_decisions_it_grows_no_further_than_the_kv_cache_holds() -> None:
    """Eight sequences take a third of it: 23 fit, however many are proposed when a burst comes."""
    limit = governed(Says(200), memory_aware=True)
    for number in range(8):
        limit.observe(signals(8, kv_usage_ratio=0.32, limited=False), number / 100)
    assert limit.why == "idle"
    for number in range(8, 14):
        taken = limit.seats(0.1)
        limit.observe(signals(taken, kv_usage_ratio=0.04 * taken, limited=True), number / 100)
    assert limit.seats(0.2) == 23


class Saturated:
    """An engine that more sequences only make slower."""

    saturated = True

    def update(self, seen: Interval) -> None:
        """Nothing changes that."""


def test_a_saturated_engine_grows_no_more_between_the_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor where no request waited at the decision."""
    monkeypatch.setattr(governor, "Saturation", Saturated)
    limit = governed(Says(64))
    for number in range(8):
        limit.observe(signals(16, limited=False), number / 100)
    for number in range(8, 12):
        limit.observe(signals(16, limited=True), number / 100)
    assert limit.seats(0.2) == 16
