"""Several instances on the simulator: routing, and scaling.

--only routing   some goals only
--strict         exit code 1 on a miss

No engine and no network.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean

from accepted import Accepted
from command import Goals, run
from fleet_days import Trial, trial
from fleet_routers import ROUTERS, simulate_on_arrival, with_slow
from goal import Goal
from simulated_fleet import simulate_late

from headway_simulator import WORKLOADS, EngineModel, Phase, Result, Slo, ceiling, lognormal, plain, summarise
from headway_simulator.traffic.workload import Request

MODEL, SLO = EngineModel(), Slo()
CEILING = ceiling(MODEL, 64, 64, SLO)
PRESET = plain("continuous", CEILING.seats)
SEEDS, SPAN_S, INSTANCES = (1, 2, 3), 600.0, 4
_LONG_TOKENS = 1024
LENGTHS = ("prompt_tokens", "output_tokens")
#: The lengths of W1, but the answers vary more.
CHAT = replace(WORKLOADS["W1"], phases=(Phase(lognormal(64, 0.7, 1, 2048), lognormal(64, 1.5)),))
_BELOW = "load {:g}, TTFT p99, round robin : late binding"
#: Of this benchmark.
ACCEPTED: Accepted = {
    ("G11", _BELOW.format(load)): "a router that knows what every request will generate does no better"
    for load in (0.9, 0.95)
}


def routing() -> Iterator[Goal]:
    """G11 and N15: four instances, chat whose answers have a cv of 1.5 ..."""
    for load, times in ((0.9, 4.0), (0.95, 6.0)):
        late_s, turn_s, two_s, known_s = _p99_s(load, 1.0)
        note = f"{late_s * 1000:.0f} ms; round robin {turn_s * 1000:.0f}, best of two at random {two_s * 1000:.0f} ms"
        yield Goal("G11", _BELOW.format(load), times, turn_s / late_s, note=note)
        note = f"{known_s * 1000:.0f} ms"
        figure = f"load {load:g}, TTFT p99, late binding : shortest wait, known exactly"
        yield Goal("G11", figure, 1.1, late_s / known_s, most=True, note=note)
    late_s, turn_s, two_s, known_s = _p99_s(0.9, 2.0)
    others = f"round robin {turn_s:.0f} s, best of two at random {two_s:.1f} s, known exactly {known_s:.1f} s"
    note = f"{late_s * 1000:.0f} ms; {others}"
    figure = "one of them twice as slow, load 0.9, TTFT p99, round robin : late binding"
    yield Goal("G11", figure, 100.0, turn_s / late_s, note=note)
    yield from _two()


def _p99_s(load: float, slow_factor: float) -> list[float]:
    """The 99th percentile of the time to the first token, the mean over the seeds: late binding, then the others."""
    models = with_slow(MODEL, INSTANCES, slow_factor)
    load *= INSTANCES - 1 + 1 / slow_factor
    found: list[list[float]] = []
    for seed in SEEDS:
        requests = CHAT.requests(SPAN_S, seed, model=MODEL, slo=SLO, load=load)
        seats = _seats(requests)
        late = simulate_late(requests, PRESET, models, seats)
        others = [simulate_on_arrival(router, requests, models, seats) for router in ROUTERS]
        found.append([_ttft_p99_s(one) for one in (late, *others)])
    return [mean(column) for column in zip(*found, strict=True)]


def _seats(requests: list[Request]) -> int:
    """The most seats of an instance that keep the time between tokens, for the mean lengths of these requests."""
    prompt_tokens, output_tokens = (mean(getattr(request, name) for request in requests) for name in LENGTHS)
    return ceiling(MODEL, prompt_tokens, output_tokens, SLO).seats


def _ttft_p99_s(result: Result) -> float:
    return summarise("", result, SLO, warmup_s=30.0, span_s=SPAN_S).all.ttft.p99_s or 0.0


def _two() -> Iterator[Goal]:
    closed = replace(CHAT, closed=4000)
    requests = closed.requests(0.0, 1, model=MODEL, slo=SLO)
    one, two = (simulate_late(requests, PRESET, [MODEL] * n, CEILING.seats).ended_s for n in (1, 2))
    yield Goal("N15", "tokens/s, two instances : one", 1.8, one / two)


def grouping() -> Iterator[Goal]:
    """A30: four instances, chat beside long prompts, one instance kept for these ..."""
    for load, times in ((0.5, 1.03), (0.8, 1.08)):
        requests = [
            WORKLOADS["W8"].requests(SPAN_S, seed, model=MODEL, slo=SLO, load=INSTANCES * load) for seed in SEEDS
        ]
        mixed, apart = ([_w8(one, long_tokens) for one in requests] for long_tokens in (None, _LONG_TOKENS))
        (kept, kept_s), (lost, lost_s) = ([mean(column) for column in zip(*one, strict=True)] for one in (apart, mixed))
        note = f"{kept:.1%} and {lost:.1%}; TTFT p99 {kept_s * 1000:.0f} and {lost_s * 1000:.0f} ms"
        figure = f"W8 at load {load:g}, within both objectives, short prompts apart : mixed"
        yield Goal("A30", figure, times, kept / lost, note=note)


def _w8(requests: list[Request], long_tokens: int | None) -> tuple[float, float]:
    """The share within both objectives, and the 99th percentile of the time to the first token."""
    seats = _seats(requests)
    preset, models = plain("continuous", seats), [MODEL] * INSTANCES
    found = simulate_late(requests, preset, models, seats, long_tokens)
    figures = summarise("", found, SLO, warmup_s=30.0, span_s=SPAN_S).all
    return figures.attained_ratio, figures.ttft.p99_s or 0.0


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
GOALS: Goals = {"routing": routing, "grouping": grouping, "scaling": scaling}

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], GOALS, ACCEPTED, PAGE, help_text=__doc__ or "", marks="fleet"))
