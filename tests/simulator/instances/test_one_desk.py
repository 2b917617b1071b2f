"""One desk before all instances: it may hold what all their desks together may hold, and no more."""

from __future__ import annotations

from collections import Counter

import pytest
from small_presets import small_preset, terms

from headway_policies import Outcome
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.instances.one_desk import OneDesk, widened
from headway_simulator.instances.run import ROUTERS, RouterName, instances, simulate_instances
from headway_simulator.traffic.workload import Request

MODEL = EngineModel()


@pytest.mark.parametrize("router", [one for one in ROUTERS if one != "random"])
def test_a_burst_meets_the_same_bounds_under_every_router(router: RouterName) -> None:
    """Three instances with one seat and two places each: of twelve at once nine are served."""
    preset = small_preset(1, most_waiting=2, classes={"normal": terms(1, places=2, queue_s=None)})
    burst = [Request(0.0, "normal", 8, 4) for _ in range(12)]
    result = simulate_instances(burst, preset, instances(MODEL, 3), 1, router=router)
    assert Counter(one.outcome for one in result.visits) == {Outcome.COMPLETED: 9, Outcome.REJECTED_FULL: 3}


def test_bounds_and_reserves_are_those_of_all_desks_together() -> None:
    """What is not bounded stays so; nothing passes the largest bound of a preset."""
    classes = {
        "high": terms(2, places=400_000, reserved_seats=2, max_waiting_tokens=1000),
        "normal": terms(1, places=5),
    }
    preset = widened(small_preset(8, most_waiting=10, classes=classes), 3)
    assert preset.queue.max_waiting == 30
    high, normal = preset.classes["high"], preset.classes["normal"]
    assert (high.max_waiting, high.reserved_seats, high.max_waiting_tokens) == (1_000_000, 6, 3000)
    assert (normal.max_waiting, normal.reserved_seats, normal.max_waiting_tokens) == (15, None, None)


def test_the_limit_follows_the_instances_that_are_open() -> None:
    """One with fewer places than seats gives what it can."""
    models = [MODEL, MODEL, EngineModel(max_num_seqs=2)]
    one = OneDesk(small_preset(4), models, 4)
    assert one.desk.limit == one.binding.seats == 10
    one.binding.close(0)
    one.refit(1.0)
    assert one.desk.limit == 6
    one.binding.open(0)
    one.refit(2.0)
    assert one.desk.limit == 10
