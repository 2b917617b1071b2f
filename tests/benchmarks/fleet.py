"""Several instances on the simulator: routing, the cost of a request before up to 1,000 of them, and scaling.

--only routing   some goals only; sweep-long, 10,000,000 requests on 1,000 instances, runs only if it is named
--strict         exit code 1 on a miss

No engine and no network.
"""

from __future__ import annotations

import gc
import sys
import time
from array import array
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from statistics import mean

from accepted import Accepted
from command import Goals, run
from fleet_days import Trial, trial
from goal import Goal

from headway_policies import Outcome
from headway_policies.routing import LeastLoaded
from headway_simulator import WORKLOADS, Clients, EngineModel, Phase, Slo, Visit, ceiling, lognormal, of_workload, plain
from headway_simulator.engine_model.engine import Sequence
from headway_simulator.instances.binding import LateBinding
from headway_simulator.instances.compare import capacity_of, compare_routers
from headway_simulator.instances.one_desk import OneDesk
from headway_simulator.instances.run import RouterName, instances, simulate_instances
from headway_simulator.instances.shell import FleetShell
from headway_simulator.traffic.workload import Request

MODEL, SLO = EngineModel(), Slo()
CEILING = ceiling(MODEL, 64, 64, SLO)
PRESET = plain("continuous", CEILING.seats)
SEEDS, SPAN_S, INSTANCES = (1, 2, 3), 600.0, 4
#: The lengths of W1, but the answers vary more.
CHAT = replace(WORKLOADS["W1"], phases=(Phase(lognormal(64, 0.7, 1, 2048), lognormal(64, 1.5)),))
LATE: RouterName = "late"
_BELOW = "load {:g}, TTFT p99, round robin : late binding"
#: Of this benchmark.
ACCEPTED: Accepted = {
    ("G11", _BELOW.format(load)): "a router that knows what every request will generate reaches {known:.1f}"
    for load in (0.9, 0.95)
}


def routing() -> Iterator[Goal]:
    """G11 and N15: four instances, chat whose answers have a cv of 1.5 ..."""
    for load, times in ((0.9, 4.0), (0.95, 6.0)):
        late_s, turn_s, two_s, known_s = _p99_s(load, 1.0)
        note = f"{late_s * 1000:.0f} ms; round robin {turn_s * 1000:.0f}, best of two at random {two_s * 1000:.0f} ms"
        known = partial(dict[str, float], known=turn_s / known_s)
        yield Goal("G11", _BELOW.format(load), times, turn_s / late_s, note=note, numbers=known)
        note = f"{known_s * 1000:.0f} ms"
        figure = f"load {load:g}, TTFT p99, late binding : shortest wait, known exactly"
        yield Goal("G11", figure, 1.1, late_s / known_s, most=True, note=note)
    late_s, turn_s, two_s, known_s = _p99_s(0.9, 2.0)
    others = f"round robin {turn_s:.0f} s, best of two at random {two_s:.1f} s, known exactly {known_s:.1f} s"
    note = f"{late_s * 1000:.0f} ms; {others}"
    figure = "one of them twice as slow, load 0.9, TTFT p99, round robin : late binding"
    yield Goal("G11", figure, 100.0, turn_s / late_s, note=note)
    yield from _two()
    yield from _killed()


def _p99_s(load: float, slow_factor: float) -> list[float]:
    """The 99th percentile of the time to the first token, the mean over the seeds, of late, in turn, random, known."""
    models = instances(MODEL, INSTANCES, slow_factor)
    found: list[list[float]] = []
    for seed in SEEDS:
        traffic = of_workload(CHAT, SPAN_S, seed, model=MODEL, slo=SLO, load=load, capacity=capacity_of(models))
        names: tuple[RouterName, ...] = (LATE, "round-robin", "random", "jsq")
        runs = compare_routers(names, PRESET, models, traffic, SLO, seed=seed).runs
        found.append([one.summary.all.ttft.p99_s or 0.0 for one in runs])
    return [mean(column) for column in zip(*found, strict=True)]


def _two() -> Iterator[Goal]:
    closed = replace(CHAT, closed=4000)
    requests = closed.requests(0.0, 1, model=MODEL, slo=SLO)
    one, two = (simulate_instances(requests, PRESET, instances(MODEL, n), CEILING.seats).ended_s for n in (1, 2))
    yield Goal("N15", "tokens/s, two instances : one", 1.8, one / two)


def _killed() -> Iterator[Goal]:
    """One of four dies while requests wait."""
    requests = CHAT.requests(SPAN_S, 1, model=MODEL, slo=SLO, load=1.1 * INSTANCES)
    result = simulate_instances(requests, PRESET, instances(MODEL, INSTANCES), CEILING.seats, kills=[(SPAN_S / 2, 1)])
    waited = [one for one in result.visits if one.dispatched_s is None or one.dispatched_s > SPAN_S / 2]
    waited = [one for one in waited if one.arrived_s < SPAN_S / 2]
    lost = sum(one.outcome is not Outcome.COMPLETED for one in waited)
    doubled = sum(one.made_tokens > one.request.output_tokens for one in result.visits)
    note = f"{len(waited)} waited"
    yield Goal("G11", "an engine dies: waiting requests lost or doubled", 0.0, lost + doubled, most=True, note=note)


class Passing(FleetShell):
    """Keeps of each request its time to the first token alone, so that millions fit into memory."""

    def __init__(self, one: OneDesk) -> None:
        super().__init__(one.desk, one.fleet, one.engine_lost, Clients(), seed=0)
        self.ttfts_s = array("f")

    def _end(self, visit: Visit, outcome: Outcome) -> None:
        super()._end(visit, outcome)
        self.ttfts_s.append(visit.ttft_s or 0.0)
        self._visits[visit.id] = None  # type: ignore[call-overload]  # nobody asks for it again


def sweep() -> Iterator[Goal]:
    """The cost of a request before 1 to 1,000 instances; a million requests on the largest number ..."""
    yield from _binding()
    costs_us = {number: _cost_us(number, 100_000) for number in (1, 10, 100)}
    costs_us[1000] = _cost_us(1000, 1_000_000)
    yield _flat(costs_us[1000], costs_us[10], ", ".join(f"{n:,}: {us:.0f}" for n, us in costs_us.items()))


def sweep_long() -> Iterator[Goal]:
    """Ten million requests on 1,000 instances ..."""
    few_us, many_us = _cost_us(10, 1_000_000), _cost_us(1000, 10_000_000)
    yield _flat(many_us, few_us, f"10,000,000 requests in {many_us * 10 / 60:.0f} min")


def _flat(many_us: float, few_us: float, note: str) -> Goal:
    figure = "simulated request, engine model included, 1,000 instances : 10"
    return Goal("A29", figure, 2.0, many_us / few_us, most=True, note=f"µs a request, {note}")


def _binding() -> Iterator[Goal]:
    """The router alone: one sequence bound and one released."""
    costs_us = {number: min(_binding_us(number) for _ in range(5)) for number in (10, 1000)}
    note = f"µs a request, {costs_us[10]:.1f} and {costs_us[1000]:.1f}"
    yield Goal("A29", "router alone, 1,000 instances : 10", 2.0, costs_us[1000] / costs_us[10], most=True, note=note)


def _binding_us(number: int, turns: int = 20_000) -> float:
    """At nine tenths of the seats, a random instance releases one."""
    random, seats = Random(number), CEILING.seats
    binding, running = LateBinding([seats] * number, LeastLoaded()), [seats * 9 // 10] * number
    for place, held in enumerate(running):
        binding.changed(place, held, 0.1)
    freed = [random.randrange(number) for _ in range(turns)]
    sequence = Sequence(0, 64, 64)
    began_s = time.process_time()
    for place in freed:
        running[place] -= 1
        binding.changed(place, running[place], 0.1)
        taken = binding.place(sequence)
        assert taken is not None
        running[taken] += 1
        binding.changed(taken, running[taken], 0.1)
    return (time.process_time() - began_s) / turns * 1e6


def _cost_us(number: int, requests: int) -> float:
    """Processor time a request, at nine tenths of the capacity of so many instances."""
    shell = Passing(OneDesk(PRESET, [MODEL] * number, CEILING.seats))
    gc.collect()
    began_s = time.process_time()
    shell.run(islice(_arrivals(0.9 * number * CEILING.requests_per_s), requests), (), None)
    assert len(shell.ttfts_s) == requests
    return (time.process_time() - began_s) / requests * 1e6


def _arrivals(rate_per_s: float) -> Iterator[Request]:
    """Chat without an end."""
    random = Random(1)
    prompt, output = (one.sampler(random) for one in (lognormal(64, 0.7, 1, 2048), lognormal(64, 1.0)))
    at_s = 0.0
    while True:
        at_s += random.expovariate(rate_per_s)
        yield Request(at_s, "normal", prompt(), output(), None)


def scaling() -> Iterator[Goal]:
    """F22: a day with two peaks, after two like it; by forecast against by reaction ..."""
    for start_s in (60.0, 180.0):
        reacting, ahead = trial(start_s, forecast=False), trial(start_s, forecast=True)
        what = f"instances start in {start_s:.0f} s, by forecast : by reaction"
        yield Goal("F22", f"{what}, objectives missed", 0.5, ahead.missed / reacting.missed, most=True,
                   note=_shares(reacting, ahead))  # fmt: skip
        note = f"{reacting.hours:.1f} and {ahead.hours:.1f} h"
        yield Goal("F22", f"{what}, instance hours", 1.25, ahead.hours / reacting.hours, most=True, note=note)


def _shares(reacting: Trial, ahead: Trial) -> str:
    return f"{reacting.missed:.1%} and {ahead.missed:.1%}"


PAGE = Path(__file__).resolve().parents[2] / "deploy/site/docs/measured/fleet.md"
GOALS: Goals = {"routing": routing, "sweep": sweep, "sweep-long": sweep_long, "scaling": scaling}

if __name__ == "__main__":
    sys.exit(
        run(sys.argv[1:], GOALS, ACCEPTED, PAGE, help_text=__doc__ or "", marks="fleet", on_request=("sweep-long",))
    )
