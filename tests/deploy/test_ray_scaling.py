"""From the figures of servers to the number of replicas."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from headway_fleet.fleet_scaling import FleetScaling


@dataclass
class Value:
    """One sample of Ray Serve's time series."""

    value: float


def context(*servers: tuple[float, float], now_s: float = 0.0) -> Any:
    """What Ray Serve's controller passes to a policy: the demand and KV use of each server, which was idle before."""
    raw = {
        name: {str(place): [Value(0.0), Value(server[at])] for place, server in enumerate(servers)}
        for at, name in enumerate(("demand", "kv_use"))
    }
    return SimpleNamespace(
        raw_metrics=raw if servers else None, current_num_replicas=max(1, len(servers)), target_num_replicas=1,
        current_time=now_s,
    )  # fmt: skip


def test_the_policy_follows_what_all_servers_ask_for_up_at_once_and_down_slowly() -> None:
    """The parts add up before they are rounded; settings of the scaling policy go through, and the state is kept."""
    policy = FleetScaling(minimum=1, maximum=6, target_ratio=0.75, down_after_s=10.0, down_step_s=1.0)
    assert policy(context()) == (1, {})
    assert policy(context((0.3, 0.0), (0.3, 0.0), now_s=1.0))[0] == 1
    assert policy(context((1.5, 0.0), (1.5, 0.0), now_s=2.0))[0] == 4
    assert policy(context((0.1, 0.0), now_s=5.0))[0] == 4
    assert policy(context((0.1, 0.0), now_s=20.0))[0] == 3
    assert FleetScaling(maximum=6)(context((9.0, 0.0)))[0] == 6


def test_full_kv_caches_ask_for_more() -> None:
    """By their mean: servers know nothing of those of the others. One that has said nothing yet counts for none."""
    assert FleetScaling(maximum=6)(context((0.5, 1.0), (0.5, 1.0)))[0] == 3
    silent = SimpleNamespace(
        raw_metrics={"kv_use": {"0": []}}, current_num_replicas=1, target_num_replicas=1, current_time=0.0
    )
    assert FleetScaling(maximum=6)(silent)[0] == 1


def test_a_new_controller_begins_with_the_replicas_that_there_are() -> None:
    """Before any of them has said anything, and where some of them still start."""
    restarted = SimpleNamespace(raw_metrics={}, current_num_replicas=6, target_num_replicas=8, current_time=0.0)
    assert FleetScaling(minimum=2, maximum=8)(restarted)[0] == 8
