"""What one server of several asks for: parts that add up, whatever the division, and are rounded as a sum alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.scaling import ClassQueue, DesiredInstances, Need, Scaling, ScalingSignals, Why, own_need

SETTINGS = Scaling()
CALM = ScalingSignals(ready=1, offered=0.0, capacity=10.0)


@pytest.mark.parametrize(
    ("seen", "need"),
    [
        (CALM, Need(0.0, Why.ARRIVALS)),
        (replace(CALM, offered=2.0), Need(0.25, Why.ARRIVALS)),
        (replace(CALM, offered=12.0), Need(1.5, Why.ARRIVALS)),
        (replace(CALM, offered=10.0, queues={"a": ClassQueue(30.0, 1.0, 2.0)}), Need(2.5, Why.QUEUE)),
        (replace(CALM, offered=8.0, queues={"a": ClassQueue(30.0, 0.9, 2.0)}), Need(1.0, Why.ARRIVALS)),
        (replace(CALM, offered=8.0, attained_ratio=0.9), Need(1.25, Why.OBJECTIVES)),
    ],
    ids=["idle", "a quarter", "one and a half", "a late queue", "a young queue", "missed objectives"],
)
def test_the_signal_that_asks_for_most_decides(seen: ScalingSignals, need: Need) -> None:
    """In parts of an instance, without a minimum."""
    assert own_need(SETTINGS, seen) == need


@given(
    st.floats(0.0, 200.0),
    st.floats(0.0, 500.0),
    st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(0.01, 1.0)), min_size=1, max_size=8),
)
def test_the_parts_of_a_stream_add_up(offered: float, waiting: float, parts: list[tuple[float, float]]) -> None:
    """Exactly where what waits is divided as what arrives is; to no less than the need of the whole in any case."""

    def need(offered: float, depth: float) -> float:
        seen = ScalingSignals(1, offered, 10.0, {"a": ClassQueue(depth, 2.0, 2.0)})
        return own_need(SETTINGS, seen).instances

    arrive, wait = (sum(one[place] for one in parts) for place in (0, 1))
    alike = sum(need(offered * one / arrive, waiting * one / arrive) for one, _ in parts)
    uneven = sum(need(offered * one / arrive, waiting * two / wait) for one, two in parts)
    assert alike == pytest.approx(need(offered, waiting))
    assert uneven >= need(offered, waiting) * (1.0 - 1e-9)
    whole = DesiredInstances(replace(SETTINGS, maximum=10_000)).update(
        ScalingSignals(1, offered, 10.0, {"a": ClassQueue(waiting, 2.0, 2.0)}), 0.0
    )
    assert max(1.0, alike) - 1e-6 <= whole.instances <= max(1.0, alike + 1.0)


def test_two_idle_servers_ask_for_less_than_two() -> None:
    """A sum of numbers that were each rounded up would never scale in."""
    needs = [own_need(SETTINGS, replace(CALM, offered=2.0)) for _ in range(2)]
    assert sum(one.instances for one in needs) == 0.5
