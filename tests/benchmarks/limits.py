"""G1, G3, G6 and N6: what paced prompts and adaptive limits reach, against fixed limits and against an oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from statistics import mean
from typing import NamedTuple

from arms import MODEL, SLO, Table, arm, run, run_open
from goal import Goal
from serving.arms import stated
from serving.figures import middle

from headway_policies import Preset
from headway_simulator import WORKLOADS, Workload

SEEDS = (1, 2, 3)
_SPAN_S = 300  # each of the five phases once
_GRID = (4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64)
#: N6: the share of the requests that keep both objectives at a capacity, as DistServe has it (arXiv 2401.09670), and
#: the loads between which it is looked for.
_KEPT, _LOADS, _HALVINGS = 0.9, (0.4, 1.2), 4
Switches = Sequence[tuple[float, Preset]]
_IN_TIME: Table = {"first_token_timeout_s": SLO.ttft_s}


class _Speed(NamedTuple):
    """Tokens per second and preemptions, means over the seeds, and the tokens per second of each."""

    tokens_per_s: float
    preemptions: float
    each: tuple[float, ...]


def _arm(name: str, seats: int, limit: Table | None = None) -> Preset:
    """An arm that refuses requests whose first token would be late. Only the limit differs between these arms."""
    return arm(
        name,
        batching={"strategy": "continuous", "seats": seats},
        limit=limit,
        queue={"refuse_infeasible": True, "shed_unreachable": True},
        classes={"realtime": {"priority": 2, **_IN_TIME}, "normal": {"priority": 1, **_IN_TIME}},
    )


def adaptive_arm(policy: str) -> Preset:
    """The arm of G3 whose limit adapts itself."""
    return _arm(policy, 32, {"policy": policy, "inter_token_slo_ms": 1000 * SLO.inter_token_s, "max_seats": 64})


def memory_aware_arm() -> Preset:
    """The arm of G6 whose limit knows the KV space."""
    return arm("aware", batching={"seats": 256}, limit={"memory_aware": True, "max_seats": 256})


def _goodput(load: float, preset: Preset, workload: Workload = WORKLOADS["W3"], switches: Switches = ()) -> float:
    """Requests per second that keep both objectives, mean over the seeds."""
    runs = (workload.requests(_SPAN_S, seed, model=MODEL, slo=SLO, load=load) for seed in SEEDS)
    return mean(run_open(run, preset, _SPAN_S, switches=switches).all.goodput_per_s for run in runs)


def _oracle(load: float) -> float:
    """Goodput with the best fixed limit of each phase, found on that phase alone and switched when the phase begins."""
    at_s, switches = 0.0, []
    for phase in WORKLOADS["W3"].phases:
        alone = replace(WORKLOADS["W3"], phases=(replace(phase, length_s=_SPAN_S),))
        best = max(_GRID, key=lambda seats, alone=alone: _goodput(load, _arm(f"{seats}", seats), workload=alone))
        switches.append((at_s, _arm(f"oracle-{best}", best)))
        at_s += phase.length_s
    return _goodput(load, switches[0][1], switches=switches[1:])


def pacing() -> Iterator[Goal]:
    """G1: objectives stated and nothing tuned, on an engine where prompts are cheap and on one where they are dear."""
    paced = stated(SLO)
    unpaced = paced.model_copy(update={"limit": paced.limit.model_copy(update={"pace_prompts": False})})
    for words, model in (("cheap", MODEL), ("dear", replace(MODEL, prefill_s=2 * MODEL.prefill_s))):
        for load in (1.5, 3.0):
            runs = [WORKLOADS["W1"].requests(_SPAN_S, seed, model=model, slo=SLO, load=load) for seed in SEEDS]
            (possible_per_s,) = WORKLOADS["W1"].rates_per_s(model, SLO, 1.0)
            with_it, without = (
                mean(run_open(run, preset, _SPAN_S, model).all.goodput_per_s for run in runs)
                for preset in (paced, unpaced)
            )
            figure = f"prompts {words}, load {load:g}: goodput, prompts paced"
            yield Goal("G1", f"{figure} : fluid ceiling", 0.92, with_it / possible_per_s)
            yield Goal("G1", f"{figure} : not paced", 1.02, with_it / without)


def changing_mix(policy: str = "model") -> Iterator[Goal]:
    """G3: a mix that changes each minute: chat, long prompts, long answers, chat, short requests."""
    adaptive = adaptive_arm(policy)
    for load, target in ((1.5, 0.93), (2.5, 0.90)):
        reached, oracle = _goodput(load, adaptive), _oracle(load)
        yield Goal("G3", f"goodput at load {load:g}, adaptive limit : oracle for each phase", target, reached / oracle)
        fixed = {seats: _goodput(load, _arm(f"fixed-{seats}", seats)) for seats in _GRID}
        best = max(fixed, key=fixed.__getitem__)
        figure = f"goodput at load {load:g}, adaptive : best fixed"
        yield Goal("G3", figure, 1.15, reached / fixed[best], note=f"{best} seats")
        preset = max((8, 32, 64), key=fixed.__getitem__)
        yield Goal("G3", f"goodput at load {load:g}, adaptive : best of 8/32/64", 1.25, reached / fixed[preset])
    calm = _goodput(0.7, adaptive) / max(_goodput(0.7, _arm(f"fixed-{seats}", seats)) for seats in (16, 24, 32))
    yield Goal("G3", "goodput at load 0.7, adaptive : best fixed", 0.98, calm)


def memory() -> Iterator[Goal]:
    """G6: little KV space; answers of 128 tokens with cv 1; so many requests that the start does not matter."""
    for kv_tokens in (3200, 6400, 12800, 25600):
        speed = partial(_speed, kv_tokens)
        aware = speed(memory_aware_arm())
        fixed = {seats: speed(_fixed(seats)) for seats in (32, 64, 256)}
        best, most = max(fixed, key=lambda seats: fixed[seats].tokens_per_s), fixed[256]
        kv = f"KV of {kv_tokens} tokens"
        ratios = [own / other for own, other in zip(aware.each, most.each, strict=True)]
        note = f"{min(ratios):.3f} to {max(ratios):.3f} with {len(ratios)} seeds"
        figure = f"{kv}: tokens/s, memory-aware : 256 seats"
        yield Goal("G6, N6", figure, 1.08, aware.tokens_per_s / most.tokens_per_s, note=note)
        figure = f"{kv}: preemptions, memory-aware : 256 seats"
        yield Goal("G6", figure, 0.25, aware.preemptions / max(most.preemptions, 1), most=True)
        figure = f"{kv}: tokens/s, memory-aware : best of 32/64/256"
        yield Goal("G6", figure, 0.98, aware.tokens_per_s / fixed[best].tokens_per_s, note=f"{best} seats")


def _fixed(seats: int) -> Preset:
    return arm(f"fixed-{seats}", batching={"seats": seats})


def _speed(kv_tokens: int, preset: Preset) -> _Speed:
    model = replace(MODEL, kv_tokens=kv_tokens)
    runs = [replace(WORKLOADS["W5"], closed=2400).requests(1, seed, model=model, slo=SLO) for seed in SEEDS]
    done = [run(one, preset, model) for one in runs]
    each = tuple(one.tokens_per_s for one in done)
    return _Speed(mean(each), mean(one.preemptions for one in done), each)


def capacities() -> Iterator[Goal]:
    """N6: the load at which nine of ten requests keep both objectives, Algorithm 2 of 2503.05248 : fixed seats."""
    found = {seats: _capacities(_arm(f"fixed-{seats}", seats)) for seats in (8, 32, 64, 256)}
    searched = _capacities(adaptive_arm("sla"))
    best = max((8, 32, 64), key=lambda seats: mean(found[seats]))
    for seats, which in ((256, "256 seats"), (best, "best of 8/32/64")):
        ratios = [own / other for own, other in zip(searched, found[seats], strict=True)]
        reached, least, most = middle(ratios) or (0.0, 0.0, 0.0)
        note = f"{least:.2f} to {most:.2f} with {len(ratios)} seeds" + (f"; {best} seats" if seats == best else "")
        yield Goal("N6", f"capacity within both objectives, Algorithm 2 : {which}", 1.22, reached, note=note)


def _capacities(preset: Preset) -> list[float]:
    """The capacity with the arrivals of each seed, of the mix of G3."""

    def kept(seed: int, load: float) -> float:
        asked = WORKLOADS["W3"].requests(_SPAN_S, seed, model=MODEL, slo=SLO, load=load)
        return run_open(asked, preset, _SPAN_S).all.attained_ratio

    return [capacity(partial(kept, seed)) for seed in SEEDS]


def capacity(kept: Callable[[float], float]) -> float:
    """The load at which so many keep the objectives, by halves and then by a straight line; within the loads tried.

    ``kept`` is the share of the requests at a load.
    """
    kept = cache(kept)
    low, high = _LOADS
    for _ in range(_HALVINGS):
        half = (low + high) / 2
        low, high = (half, high) if kept(half) >= _KEPT else (low, half)
    beyond = min(1.0, max(0.0, (kept(low) - _KEPT) / max(kept(low) - kept(high), 1e-9)))
    return low + (high - low) * beyond
