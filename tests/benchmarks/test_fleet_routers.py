"""One desk with late binding before several simulated engines, against a choice on arrival."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fleet_routers import simulate_on_arrival, with_slow
from simulated_fleet import OneDesk, simulate_late
from tiers import LONG

from headway_simulator import WORKLOADS, EngineModel, Request, Result, Slo, plain, simulate, summarise

MODEL, SLO, SEATS, SPAN_S = EngineModel(), Slo(), 24, 300.0 if LONG else 150.0
PRESET = plain("continuous", SEATS)


def chat(load: float) -> list[Request]:
    """Some minutes of chat at a multiple of what one engine serves."""
    return WORKLOADS["W1"].requests(SPAN_S, 1, model=MODEL, slo=SLO, load=load)


def p99_s(result: Result) -> float:
    """The 99th percentile of the time to the first token."""
    return summarise("", result, SLO, warmup_s=30.0, span_s=SPAN_S).all.ttft.p99_s or 0.0


def log(result: Result) -> list[tuple[object, ...]]:
    """All that the clients of a run observed."""
    return [(visit.id, visit.dispatched_s, visit.first_s, visit.ended_s, visit.outcome) for visit in result.visits]


@pytest.mark.parametrize("strategy", ["continuous", "dynamic"])
def test_a_fleet_of_one_is_the_engine(strategy: str) -> None:
    """To the last digit, in little KV space too."""
    requests, tight, preset = chat(1.5), replace(MODEL, kv_tokens=4096), plain(strategy, 8)  # type: ignore[arg-type]  # as named
    alone, fleet = simulate(requests, preset, tight), simulate_late(requests, preset, [tight], 8)
    assert log(fleet) == log(alone)
    assert (fleet.batches, fleet.preemptions, fleet.steps) == (alone.batches, alone.preemptions, alone.steps)


def test_late_binding_is_near_the_router_that_knows_all_and_far_from_round_robin() -> None:
    """At nine tenths of what four instances can serve. Knowing all that is to come gains no more over round robin."""
    requests, models = chat(4 * 0.9), [MODEL] * 4
    late_s = p99_s(simulate_late(requests, PRESET, models, SEATS))
    assert late_s <= 1.1 * p99_s(simulate_on_arrival("shortest wait", requests, models, SEATS))
    assert p99_s(simulate_on_arrival("round robin", requests, models, SEATS)) >= 2.5 * late_s


def test_a_slow_engine_costs_late_binding_nothing_but_its_capacity() -> None:
    """A router in turn sends it as much as the others: its queue grows for ever."""
    requests, models = chat(3.5 * 0.9), with_slow(MODEL, 4, 2.0)
    late_s = p99_s(simulate_late(requests, PRESET, models, SEATS))
    assert p99_s(simulate_on_arrival("round robin", requests, models, SEATS)) >= 50 * late_s


def test_an_instance_for_long_prompts_spares_the_short_ones() -> None:
    """More of them keep both objectives when the short ones are together, beside fewer long ones; seats are shared when
    nothing else is free, so none is lost."""
    requests = WORKLOADS["W8"].requests(SPAN_S, 1, model=MODEL, slo=SLO, load=4 * 0.8)
    mixed, apart = (simulate_late(requests, plain("continuous", 16), [MODEL] * 4, 16, long) for long in (None, 1024))
    kept = [summarise("", one, SLO, warmup_s=30.0, span_s=SPAN_S).all for one in (mixed, apart)]
    assert kept[1].attained_ratio >= 1.05 * kept[0].attained_ratio
    assert kept[1].completed == kept[0].completed


def test_the_limit_follows_the_instances_that_are_open() -> None:
    """An engine with fewer places than seats gives what it can."""
    one = OneDesk(plain("continuous", 4), [MODEL, MODEL, EngineModel(max_num_seqs=2)], 4)
    assert one.desk.limit == one.binding.seats == 10
    one.binding.close(0)
    one.refit(1.0)
    assert one.desk.limit == 6
