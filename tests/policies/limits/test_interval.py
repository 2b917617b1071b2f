"""The measuring interval: when it closes, and its figures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from intervals import interval, signals

from headway_policies import Load, Signals
from headway_policies.limits.aimd import Aimd
from headway_policies.limits.interval import IntervalMeter
from headway_policies.limits.limit import Interval, LimitSettings
from headway_policies.limits.model_fit import ModelFit
from headway_policies.limits.sla_search import SlaSearch


def closings(every_s: float, inter_token_s: float | None, steps: int = 100) -> list[int]:
    """After which steps an interval closed."""
    meter = IntervalMeter(stall_s=10)
    step = signals(8, inter_token_s)
    return [number for number in range(steps) if meter.add(step, number * every_s) is not None]


@pytest.mark.parametrize(
    ("every_s", "inter_token_s", "first"),
    [(0.01, 0.01, 7), (0.125, 0.125, 7), (0.01, None, 200), (1.0, 1.0, 2), (0.25, 12.0, 8)],
    ids=[
        "eight fast steps",
        "eight steps",
        "two seconds without times",
        "two seconds of slow steps",
        "stalls are no times",
    ],
)
def test_an_interval_closes_when_it_has_seen_enough(every_s: float, inter_token_s: float | None, first: int) -> None:
    """Eight timed steps, however fast they are; two seconds at the most."""
    assert closings(every_s, inter_token_s, steps=first + 1) == [first]


def test_an_interval_is_the_means_of_its_steps() -> None:
    """Means a step, times over the steps that had one, preemptions added up, the last word on lengths."""
    meter = IntervalMeter(stall_s=10)
    steps = [
        Signals(Load(4, 1, 0.2, None, 128, 1, 900), 6, 3, limited=False),
        Signals(Load(8, 1, 0.4, 0.05, 0, 0, 900), 8, 4, limited=True),
        Signals(Load(12, 1, 0.6, 0.07, 64, 2, 900), 10, 5, False, 60.0, 30.0, 9.0),
    ]
    closed = [meter.add(step, float(number)) for number, step in enumerate(steps)]
    assert closed[:2] == [None, None]
    means = (8, 8, 64, pytest.approx(0.4), pytest.approx(0.06), 3, True, 5, 900, 60.0, 30.0, 9.0)
    expected = Interval(*means, lasted_s=2.0)
    assert closed[2] == expected


def test_the_next_interval_starts_empty() -> None:
    """Nothing of a closed interval is counted again."""
    meter = IntervalMeter(stall_s=10)
    for number in range(8):
        meter.add(signals(100, 0.1, preemptions=5), number / 10)
    second = [meter.add(signals(2, 0.02, limited=False), 1 + number / 10) for number in range(10)]
    closed = next(one for one in second if one is not None)
    assert (closed.running, closed.preemptions, closed.limited) == (2, 0, False)


def test_equal_steps_may_be_reported_together() -> None:
    """A stretch of three steps counts as three."""
    together, singly = IntervalMeter(stall_s=10), IntervalMeter(stall_s=10)
    long, short = Load(4, 1, 0.2, 0.05, 0, steps=3), Load(8, 1, 0.4, 0.09, 128)
    for load in (long, short):
        assert together.add(Signals(load, 6, 3, limited=True), 0.0) is None
    for load in (*[replace(long, steps=1)] * 3, short):
        assert singly.add(Signals(load, 6, 3, limited=True), 0.0) is None
    last = Signals(Load(4, 1, 0.2, 0.05), 6, 3, limited=True)
    assert together.add(last, 2.0) == singly.add(last, 2.0) is not None


@pytest.mark.parametrize(("spread_ratio", "aim_ratio"), [(0.0, 0.92), (0.05, 0.92), (0.1, 0.859), (0.2, 0.752)])
def test_where_requests_differ_in_pace_the_aim_is_lower(spread_ratio: float, aim_ratio: float) -> None:
    """So far below the objective that 19 of 20 of a normal distribution keep it; never above the set point."""
    settings = LimitSettings(inter_token_slo_ms=100)
    assert settings.set_point_s(spread_ratio) == pytest.approx(0.1 * aim_ratio, abs=1e-4)
    lower = [Aimd, SlaSearch, ModelFit]
    for make in lower:
        even, uneven = make(settings, 16), make(settings, 16)
        for _ in range(20):
            usual = even.propose(interval(16, 0.088), 16)
            cautious = uneven.propose(interval(16, 0.088, pace_spread_ratio=0.3), 16)
        assert cautious < usual
