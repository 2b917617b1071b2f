"""How many instances: what asks for more, how slowly fewer are taken, and the bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.scaling import ArrivalHistory, ClassQueue, Desired, DesiredInstances, Scaling, ScalingSignals, Why

SETTINGS = Scaling(minimum=1, maximum=8, start_s=60.0, ahead_s=60.0, down_after_s=100.0, down_step_s=20.0)
CALM = ScalingSignals(ready=1, offered=0.0, capacity=10.0)


def peak_at_noon() -> ArrivalHistory:
    """Two days of 1000 s with 40 requests/s in the slot from 500 to 600 s, 4 else; the third begins at 2000 s."""
    history = ArrivalHistory(slot_s=100.0, day_s=1000.0)
    for at_s in range(0, 2001, 10):
        history.observe(400 if 500 < at_s % 1000 <= 600 else 40, float(at_s))
    return history


@pytest.mark.parametrize(
    ("seen", "desired"),
    [
        (CALM, Desired(1, Why.MINIMUM)),
        (replace(CALM, offered=24.0), Desired(3, Why.ARRIVALS)),
        (replace(CALM, offered=24.1), Desired(4, Why.ARRIVALS)),
        (replace(CALM, offered=500.0), Desired(8, Why.MAXIMUM)),
        (replace(CALM, offered=8.0, queues={"a": ClassQueue(64, 1.0, 2.0)}), Desired(4, Why.QUEUE)),
        (replace(CALM, offered=8.0, queues={"a": ClassQueue(64, 0.9, 2.0)}), Desired(1, Why.MINIMUM)),
        (
            replace(CALM, queues={"a": ClassQueue(20, 1.0, 1.0), "b": ClassQueue(300, 9.0, 10.0)}),
            Desired(5, Why.QUEUE),
        ),
        (replace(CALM, ready=2, attained_ratio=0.9), Desired(3, Why.OBJECTIVES)),
        (replace(CALM, ready=2, attained_ratio=0.96), Desired(1, Why.MINIMUM)),
        (replace(CALM, ready=3, kv_use=0.95), Desired(4, Why.MEMORY)),
        (replace(CALM, ready=3, kv_use=0.3), Desired(1, Why.MINIMUM)),
    ],
    ids=[
        "calm",
        "arrivals",
        "rounded up",
        "maximum",
        "late queue",
        "young queue",
        "classes",
        "missed",
        "kept",
        "full memory",
        "free memory",
    ],
)
def test_the_signal_that_asks_for_most_decides(seen: ScalingSignals, desired: Desired) -> None:
    """At once, within the maximum."""
    assert DesiredInstances(SETTINGS).update(seen, 0.0) == desired


def test_a_peak_of_the_last_days_is_met_before_it_comes() -> None:
    """As long ahead as an instance takes to start and a little more; and no longer."""
    for at_s, number in ((2300.0, 1), (2379.0, 1), (2381.0, 5), (2550.0, 5)):
        policy = DesiredInstances(SETTINGS, peak_at_noon())
        found = policy.update(replace(CALM, offered=4.0), at_s)
        assert found == Desired(number, Why.FORECAST if number > 1 else Why.MINIMUM)


def test_the_forecast_adds_a_bounded_number() -> None:
    """To what the present asks for."""
    policy = DesiredInstances(replace(SETTINGS, most_ahead=2), peak_at_noon())
    assert policy.update(replace(CALM, offered=4.0), 2400.0) == Desired(3, Why.FORECAST)


def test_it_goes_down_slowly_and_one_at_a_time() -> None:
    """Not before nothing has asked for more for a while, and not at once to the bottom."""
    policy, busy = DesiredInstances(SETTINGS), replace(CALM, offered=32.0)
    assert policy.update(busy, 0.0) == Desired(4, Why.ARRIVALS)
    numbers = [policy.update(CALM, float(now_s)).instances for now_s in range(10, 171, 10)]
    assert numbers == [4] * 9 + [3, 3, 2, 2, 1, 1, 1, 1]


def test_what_runs_at_the_start_is_held_like_what_was_asked_for() -> None:
    """A decision that begins anew, after a restart, takes no instance away before it has seen the traffic."""
    policy = DesiredInstances(SETTINGS, running=5)
    numbers = [policy.update(CALM, float(now_s)).instances for now_s in range(0, 131, 10)]
    assert numbers == [5] * 10 + [4, 4, 3, 3]
    assert DesiredInstances(SETTINGS, running=50).update(CALM, 0.0).instances == SETTINGS.maximum


def test_a_second_peak_within_the_hold_finds_all_instances_there() -> None:
    """A dip between two peaks costs nothing."""
    policy, busy = DesiredInstances(SETTINGS), replace(CALM, offered=32.0)
    numbers = [policy.update(busy if now_s % 90 == 0 else CALM, float(now_s)).instances for now_s in range(0, 900, 10)]
    assert set(numbers) == {4}


def test_a_budget_bounds_the_day() -> None:
    """When it is spent only the minimum is left, until midnight."""
    settings = replace(SETTINGS, hours_a_day=2.0, day_s=3600.0)
    policy, busy = DesiredInstances(settings), replace(CALM, offered=32.0)
    found = [policy.update(busy, float(now_s)) for now_s in range(0, 3700, 10)]
    assert found[0] == Desired(4, Why.ARRIVALS)
    assert found[300] == Desired(1, Why.BUDGET)
    assert found[365] == Desired(4, Why.ARRIVALS)
    assert sum(one.instances for one in found[:360]) * 10.0 <= 2.0 * 3600.0 + 3 * 10.0


@given(
    st.lists(
        st.tuples(
            st.floats(0.1, 200.0),
            st.floats(0.0, 1000.0),
            st.integers(0, 1000),
            st.floats(0.0, 100.0),
            st.one_of(st.none(), st.floats(0.0, 1.0)),
        ),
        max_size=50,
    )
)
def test_every_answer_is_within_the_bounds(events: list[tuple[float, float, int, float, float | None]]) -> None:
    """From the minimum to the maximum, and never two fewer than before."""
    policy, now_s, before = DesiredInstances(SETTINGS, ArrivalHistory()), 0.0, 1
    for gap_s, rate_per_s, depth, age_s, attained in events:
        now_s += gap_s
        seen = ScalingSignals(before, rate_per_s, 10.0, {"a": ClassQueue(depth, age_s, 2.0)}, attained)
        number = policy.update(seen, now_s).instances
        assert 1 <= number <= 8
        assert number >= before - 1
        before = number


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"minimum": 0}, "minimum"),
        ({"minimum": 9}, "maximum"),
        ({"target_ratio": 0.0}, "target_ratio"),
        ({"kv_target_ratio": 1.1}, "kv_target_ratio"),
        ({"start_s": -1.0}, "start_s"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(wrong: dict[str, float], says: str) -> None:
    """In one line that names them."""
    with pytest.raises(ValueError, match=says):
        replace(SETTINGS, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"capacity": 0.0}, {"offered": -1.0}, {"offered": float("nan")}])
def test_signals_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    """With their name."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        replace(CALM, **wrong)  # type: ignore[arg-type]
