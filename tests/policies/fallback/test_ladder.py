"""The fallback ladder: when it climbs, when it comes down, and that it always does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.fallback.ladder import Ladder
from headway_policies.fallback.rungs import RUNG_TRIGGERS, Fallback, FallbackSignals, Rung, Trigger

ALL = frozenset(RUNG_TRIGGERS)
QUICK: dict[str, Any] = {"enter_s": 1.0, "leave_s": 2.0, "leave_ratio": 0.5}
CALM = FallbackSignals()
OLD, AGEING = FallbackSignals(queue_age_s=10.0), FallbackSignals(queue_age_s=7.0)
DOWN = FallbackSignals(engine_up=False)


def config(**more: Any) -> Fallback:
    """Every trigger on, short times."""
    every = {"queue_age_s": 10.0, "kv_usage_ratio": 0.9, "error_ratio": 0.5, "engine_down": True}
    return Fallback(**(every | QUICK | more))


def ladder(rungs: frozenset[Rung] = ALL, **more: Any) -> Ladder:
    """A ladder with these rungs."""
    return Ladder(config(**more), rungs)


def walk(one: Ladder, *times: tuple[float, FallbackSignals]) -> list[Rung]:
    """The rung at each of these times."""
    return [one.update(signals, now_s) for now_s, signals in times]


CLIMBS: dict[str, tuple[FallbackSignals, list[Rung]]] = {
    "the queue is old": (OLD, [Rung.CAP, Rung.BYPASS, Rung.SHED, Rung.DIVERT]),
    "memory is short": (FallbackSignals(kv_usage_ratio=0.9), [Rung.CAP, Rung.SHED]),
    "answers fail": (FallbackSignals(error_ratio=0.5), [Rung.DIVERT, Rung.PAUSE]),
    "the engine is down": (DOWN, [Rung.DIVERT]),
    "nothing is wrong": (CALM, []),
}


@pytest.mark.parametrize(("signals", "expected"), CLIMBS.values(), ids=CLIMBS)
def test_each_trigger_climbs_its_own_rungs_and_comes_down_the_same_way(
    signals: FallbackSignals, expected: list[Rung]
) -> None:
    """One rung for each ``enter_s``, in the order of the table, and one back for each ``leave_s`` of quiet."""
    one = ladder()
    up = walk(one, *((float(now_s), signals) for now_s in range(10)))
    assert up == [Rung.NORMAL, *expected, *[(expected or [Rung.NORMAL])[-1]] * (9 - len(expected))]
    assert one.in_force == frozenset(expected)
    down = walk(one, *((10.0 + 2 * step, CALM) for step in range(6)))
    path = [*reversed(expected), Rung.NORMAL]
    assert down == [*path, *[Rung.NORMAL] * (6 - len(path))]
    assert (one.rung, one.why, one.in_force) == (Rung.NORMAL, None, frozenset())


def test_the_table_is_complete() -> None:
    """Every rung but the ground has triggers, and every trigger but the operator a rung."""
    assert set(RUNG_TRIGGERS) == set(Rung) - {Rung.NORMAL}
    assert {one for triggers in RUNG_TRIGGERS.values() for one in triggers} == set(Trigger) - {Trigger.OPERATOR}
    assert Trigger.QUEUE_AGE not in RUNG_TRIGGERS[Rung.PAUSE]


def test_a_dip_starts_the_time_anew() -> None:
    """Trouble has to hold for ``enter_s``, quiet for ``leave_s``, each without a break."""
    one = ladder()
    assert walk(one, (0.0, OLD), (0.9, OLD), (0.95, AGEING), (1.0, OLD), (1.9, OLD)) == [Rung.NORMAL] * 5
    assert one.update(OLD, 2.0) is Rung.CAP
    assert walk(one, (3.0, CALM), (4.9, CALM), (4.95, AGEING), (5.0, CALM), (6.9, CALM)) == [Rung.CAP] * 5
    assert one.update(CALM, 7.0) is Rung.NORMAL


def test_between_the_thresholds_nothing_moves() -> None:
    """The hysteresis: 7 of 10 seconds, with a lower threshold of 5, neither climbs nor comes down."""
    one = ladder()
    walk(one, (0.0, OLD), (1.0, OLD))
    assert set(walk(one, *((2.0 + step, AGEING) for step in range(100)))) == {Rung.CAP}


@pytest.mark.parametrize(
    ("trouble", "halfway"),
    [
        (OLD, FallbackSignals(queue_age_s=5.0)),
        (FallbackSignals(error_ratio=0.5), FallbackSignals(error_ratio=0.25)),
        (FallbackSignals(kv_usage_ratio=0.9), FallbackSignals(kv_usage_ratio=0.45)),
    ],
    ids=["queue age", "error share", "memory"],
)
def test_both_thresholds_belong_to_trouble(trouble: FallbackSignals, halfway: FallbackSignals) -> None:
    """Exactly at the upper threshold the ladder climbs; exactly at the lower one it does not come down yet."""
    one = ladder()
    before = walk(one, (0.0, trouble), (1.0, trouble))[-1]
    assert before is not Rung.NORMAL
    assert set(walk(one, *((2.0 + step, halfway) for step in range(100)))) == {before}


def test_with_no_time_to_enter_trouble_shows_at_once() -> None:
    """``enter_s = 0`` climbs at the first look."""
    assert ladder(enter_s=0.0).update(DOWN, 5.0) is Rung.DIVERT


def test_a_rung_that_one_trigger_skips_is_not_in_force_on_its_account() -> None:
    """An engine that is down diverts, and sheds none; an old queue at the same time caps, and that stays apart."""
    one = ladder(enter_s=0.0)
    one.update(DOWN, 0.0)
    assert one.in_force == {Rung.DIVERT}
    one.update(FallbackSignals(queue_age_s=10.0, engine_up=False), 1.0)
    assert (one.in_force, one.why) == ({Rung.CAP, Rung.DIVERT}, Trigger.ENGINE_DOWN)
    walk(one, (2.0, AGEING), (4.0, AGEING))
    assert (one.rung, one.in_force, one.why) == (Rung.CAP, {Rung.CAP}, Trigger.QUEUE_AGE)


def test_rungs_that_change_nothing_are_left_out() -> None:
    """Without a barrier and an upstream the queue's age goes from cap to shed, and no further."""
    one = ladder(frozenset({Rung.CAP, Rung.SHED}))
    assert walk(one, *((float(now_s), OLD) for now_s in range(5))) == [Rung.NORMAL, Rung.CAP, *[Rung.SHED] * 3]
    assert walk(one, (9.0, DOWN), (99.0, DOWN))[-1] is not Rung.DIVERT


def test_by_default_nothing_ever_happens() -> None:
    """No threshold is set."""
    one = Ladder(Fallback(), ALL)
    worst = FallbackSignals(queue_age_s=1e9, kv_usage_ratio=1.0, error_ratio=1.0, engine_up=False)
    assert walk(one, (0.0, worst), (1e6, worst)) == [Rung.NORMAL, Rung.NORMAL]
    assert not one.steps


def test_an_operator_stands_above_the_triggers() -> None:
    """The operator's rung holds whatever the signals are, with all rungs below it; auto follows the current signals."""
    one = ladder()
    assert one.operator(Rung.SHED, 0.0) is Rung.SHED
    assert (one.why, one.ordered) == (Trigger.OPERATOR, Rung.SHED)
    assert one.in_force == {Rung.CAP, Rung.BYPASS, Rung.SHED}
    assert walk(one, (0.0, DOWN), (1.0, DOWN)) == [Rung.SHED, Rung.SHED]
    assert one.operator(None, 2.0) is Rung.DIVERT
    assert one.in_force == {Rung.DIVERT}
    assert one.operator(Rung.NORMAL, 3.0) is Rung.NORMAL
    assert one.in_force == frozenset()


def test_a_useless_order_is_refused_and_changes_nothing() -> None:
    """Normal and pause are always possible; a rung without effect is refused."""
    one = ladder(frozenset({Rung.CAP}))
    with pytest.raises(ValueError, match="divert has no effect"):
        one.operator(Rung.DIVERT, 0.0)
    assert (one.rung, one.ordered) == (Rung.NORMAL, None)
    assert one.operator(Rung.PAUSE, 0.0) is Rung.PAUSE
    assert one.in_force == {Rung.CAP, Rung.PAUSE}


def test_each_move_is_counted_once_under_its_trigger() -> None:
    """Up under what brought it there, down under what let go."""
    one = ladder()
    walk(one, (0.0, OLD), (1.0, OLD), (1.5, OLD), (2.0, CALM), (4.0, CALM))
    one.operator(Rung.PAUSE, 5.0)
    one.operator(None, 6.0)
    assert one.steps == {
        (Rung.CAP, Trigger.QUEUE_AGE): 1,
        (Rung.NORMAL, Trigger.QUEUE_AGE): 1,
        (Rung.PAUSE, Trigger.OPERATOR): 1,
        (Rung.NORMAL, Trigger.OPERATOR): 1,
    }
    assert one.since_s == 6.0


def test_a_switch_never_climbs() -> None:
    """Rungs the new preset has are kept, others left for the next below; an order that is useless now is dropped."""
    one = ladder()
    walk(one, (0.0, OLD), (1.0, OLD), (2.0, OLD))
    one = one.under(config(), frozenset({Rung.CAP, Rung.SHED}), 3.0)
    assert one.rung is Rung.CAP
    one = one.under(config(), ALL, 3.0)
    assert one.rung is Rung.CAP
    one.operator(Rung.SHED, 4.0)
    one = one.under(config(), frozenset({Rung.CAP}), 5.0)
    assert (one.rung, one.ordered) == (Rung.CAP, None)
    one.operator(Rung.NORMAL, 6.0)
    one = one.under(config(), frozenset(), 7.0)
    assert (one.rung, one.ordered, one.usable) == (Rung.NORMAL, Rung.NORMAL, ())


def test_the_ladder_under_another_preset_leaves_this_one_as_it_is() -> None:
    """The other one has the counts of this one, and counts its own moves from there; its triggers start anew."""
    one = ladder()
    walk(one, (0.0, OLD), (1.0, OLD), (2.0, OLD), (2.5, CALM))
    before = dict(one.steps)
    other = one.under(config(), frozenset({Rung.CAP}), 3.0)
    assert (other.rung, other.since_s, other.steps) == (Rung.CAP, 3.0, {**before, (Rung.CAP, Trigger.QUEUE_AGE): 2})
    assert walk(other, (4.5, CALM), (6.4, CALM), (6.5, CALM)) == [Rung.CAP, Rung.CAP, Rung.NORMAL]
    assert (one.rung, one.since_s, one.steps) == (Rung.BYPASS, 2.0, before)
    assert one.update(CALM, 4.5) is Rung.CAP


SIGNS = st.builds(
    FallbackSignals,
    queue_age_s=st.floats(0, 30),
    kv_usage_ratio=st.floats(0, 1),
    error_ratio=st.floats(0, 1),
    engine_up=st.booleans(),
)
LOOKS = st.lists(st.tuples(st.floats(0, 5), SIGNS), max_size=60)


@given(looks=LOOKS, rungs=st.frozensets(st.sampled_from(sorted(ALL))), enter_s=st.floats(0, 3), leave_s=st.floats(0, 3))
def test_it_never_skips_down_and_always_comes_home(
    looks: list[tuple[float, FallbackSignals]], rungs: frozenset[Rung], enter_s: float, leave_s: float
) -> None:
    """One look takes each trigger one rung up or down at most, no useless rung is in force, quiet ends at normal."""
    one, now_s = Ladder(config(enter_s=enter_s, leave_s=leave_s), rungs), 0.0
    before = [0] * len(Trigger)
    for passed_s, signals in looks:
        now_s += passed_s
        rung = one.update(signals, now_s)
        assert one.in_force <= rungs
        assert rung is max(one.in_force, default=Rung.NORMAL)
        assert (one.why is None) == (rung is Rung.NORMAL)
        heights = [state.height for state in one._states.values()]
        assert all(abs(after - earlier) <= 1 for earlier, after in zip(before, heights, strict=True))
        before = heights
    for _ in range(len(ALL)):
        now_s += leave_s + 0.001
        one.update(CALM, now_s)
        now_s += leave_s + 0.001
        one.update(CALM, now_s)
    assert (one.rung, one.in_force, one.why) == (Rung.NORMAL, frozenset(), None)
