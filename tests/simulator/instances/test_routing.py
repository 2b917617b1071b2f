"""Late binding against a choice on arrival: the time to the first token, a slow engine, and the throughput of two."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway_simulator.engine_model.capacity import Slo
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.instances.arrival import RoundRobin, ShortestWait, TwoChoices
from headway_simulator.instances.compare import capacity_of, compare_routers, seats_for
from headway_simulator.instances.run import RouterName, instances, simulate_instances
from headway_simulator.report.report import Comparison
from headway_simulator.studies.strategies import plain
from headway_simulator.traffic.traffic import of_workload
from headway_simulator.traffic.workload import WORKLOADS

MODEL, SLO = EngineModel(), Slo()
PRESET = plain("continuous", 24)


def compared(load: float, *routers: RouterName, slow_factor: float = 1.0) -> Comparison:
    """Four instances, five minutes of chat at a multiple of what they can serve together."""
    models = instances(MODEL, 4, slow_factor)
    traffic = of_workload(WORKLOADS["W1"], 300.0, 1, model=MODEL, slo=SLO, load=load, capacity=capacity_of(models))
    return compare_routers(routers, PRESET, models, traffic, SLO, seed=1)


def p99_s(comparison: Comparison) -> list[float]:
    """The 99th percentile of the time to the first token under each router."""
    found = [run.summary.all.ttft.p99_s for run in comparison.runs]
    return [one for one in found if one is not None]


def test_late_binding_is_near_the_router_that_knows_all_and_far_from_round_robin() -> None:
    """At nine tenths of what four instances can serve. Knowing all that is to come gains no more over round robin."""
    late_s, jsq_s, round_robin_s = p99_s(compared(0.9, "late", "jsq", "round-robin"))
    assert late_s <= 1.1 * jsq_s
    assert round_robin_s >= 2.5 * late_s


def test_a_slow_engine_costs_late_binding_nothing_but_its_capacity() -> None:
    """A router in turn sends it as much as the others: its queue grows for ever."""
    late_s, round_robin_s = p99_s(compared(0.9, "late", "round-robin", slow_factor=2.0))
    assert round_robin_s >= 50 * late_s


def test_two_instances_serve_nearly_twice_as_much_as_one() -> None:
    """A closed batch, in tokens a second."""
    closed = replace(WORKLOADS["W1"], closed=1200)
    requests = closed.requests(0.0, 1, model=MODEL, slo=SLO)
    one, two = (simulate_instances(requests, PRESET, instances(MODEL, number), 24) for number in (1, 2))
    assert one.ended_s / two.ended_s >= 1.8


def test_the_capacity_is_that_of_all_engines() -> None:
    """One that is twice as slow counts half; the seats are those of one engine."""
    assert capacity_of(instances(MODEL, 4)) == pytest.approx(4.0)
    assert capacity_of(instances(MODEL, 4, 2.0)) == pytest.approx(3.5)
    traffic = of_workload(WORKLOADS["W1"], 600.0, 1, model=MODEL, slo=SLO, load=0.9, capacity=4.0)
    assert 20 <= seats_for(traffic, MODEL, SLO) <= 28
    alone = of_workload(WORKLOADS["W1"], 600.0, 1, model=MODEL, slo=SLO, load=0.9)
    assert len(traffic.requests) == pytest.approx(4 * len(alone.requests), rel=0.05)


class Given:
    """Standings that are given."""

    def __init__(self, *inside: int) -> None:
        self.numbers = inside

    def inside(self, place: int) -> int:
        """So many."""
        return self.numbers[place]

    def first_token_s(self, place: int) -> float:
        """The more are inside the longer."""
        return float(self.numbers[place])


def test_the_routers_to_compare_with_do_what_they_are_called() -> None:
    """In turn, the emptier of two, the shortest wait; only among those that live."""
    standings, turns = Given(5, 0, 9, 1), RoundRobin()
    assert [turns.choose([0, 2, 3], standings) for _ in range(4)] == [0, 2, 3, 0]
    drawn = {TwoChoices(seed).choose([0, 1, 2, 3], standings) for seed in range(50)}
    assert drawn == {0, 1, 3}  # the fullest of four is never the emptier of two
    assert TwoChoices(1).choose([2], standings) == 2
    assert ShortestWait().choose([0, 2, 3], standings) == 3
