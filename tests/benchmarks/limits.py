"""G3, G6: limits that find their own value, against fixed ones and against an oracle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import mean

from arms import MODEL, SLO, Table, arm, run, run_open
from goal import Goal

from headway.simulator import WORKLOADS, Workload
from headway_policies import Preset

SEEDS = (1, 2, 3)
_SPAN_S = 300  # each of the five phases once
_GRID = (4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64)
Switches = Sequence[tuple[float, Preset]]
_IN_TIME: Table = {"first_token_timeout_s": SLO.ttft_s}


def _arm(name: str, seats: int, limit: Table | None = None) -> Preset:
    """An arm that turns away who cannot have a first token in time; its limit is all that differs."""
    return arm(
        name,
        batching={"strategy": "continuous", "seats": seats},
        limit=limit,
        queue={"refuse_infeasible": True, "shed_unreachable": True},
        classes={"realtime": {"priority": 2, **_IN_TIME}, "normal": {"priority": 1, **_IN_TIME}},
    )


def _goodput(load: float, preset: Preset, workload: Workload = WORKLOADS["W3"], switches: Switches = ()) -> float:
    """Requests within both objectives a second, mean over the seeds."""
    runs = (workload.requests(_SPAN_S, seed, model=MODEL, slo=SLO, load=load) for seed in SEEDS)
    return mean(run_open(one, preset, _SPAN_S, switches=switches).all.goodput_per_s for one in runs)


def _oracle(load: float) -> float:
    """The best fixed limit of each phase, found by trying it on that phase alone, switched the moment it begins."""
    at_s, switches = 0.0, []
    for phase in WORKLOADS["W3"].phases:
        alone = replace(WORKLOADS["W3"], phases=(replace(phase, length_s=_SPAN_S),))
        best = max(_GRID, key=lambda seats, alone=alone: _goodput(load, _arm(f"{seats}", seats), workload=alone))
        switches.append((at_s, _arm(f"oracle-{best}", best)))
        at_s += phase.length_s
    return _goodput(load, switches[0][1], switches=switches[1:])


_BEST_FIXED = (
    "the best fixed limit reaches 0.9 of the oracle, because the desk sheds requests that would be late; "
    "more than 1.11 is impossible"
)


def changing_mix(policy: str = "model") -> Iterator[Goal]:
    """G3: chat, long prompts, long answers, chat, short requests, a minute each."""
    adaptive = _arm(policy, 32, {"policy": policy, "inter_token_slo_ms": 1000 * SLO.inter_token_s, "most": 64})
    for load, target in ((1.5, 0.93), (2.5, 0.90)):
        reached = _goodput(load, adaptive)
        yield Goal(
            "G3", f"goodput at load {load:g}, adaptive limit : oracle for each phase", target, reached / _oracle(load)
        )
        fixed = {seats: _goodput(load, _arm(f"fixed-{seats}", seats)) for seats in _GRID}
        best = max(fixed, key=fixed.__getitem__)
        what = f"goodput at load {load:g}, adaptive : best fixed ({best} seats)"
        yield Goal("G3", what, 1.15, reached / fixed[best], why=_BEST_FIXED)
        preset = max((8, 32, 64), key=fixed.__getitem__)
        yield Goal("G3", f"goodput at load {load:g}, adaptive : best of 8/32/64", 1.25, reached / fixed[preset])
    calm = _goodput(0.7, adaptive) / max(_goodput(0.7, _arm(f"fixed-{seats}", seats)) for seats in (16, 24, 32))
    yield Goal("G3", "goodput at load 0.7, adaptive : best fixed", 0.98, calm)


def memory() -> Iterator[Goal]:
    """G6: KV space for few; answers of 128 tokens with cv 1; so many requests that the start does not count."""
    for kv_tokens in (3200, 6400, 12800, 25600):
        model = replace(MODEL, kv_tokens=kv_tokens)
        runs = [replace(WORKLOADS["W5"], closed=2400).requests(1, seed, model=model, slo=SLO) for seed in SEEDS]

        def speed(preset: Preset, model=model, runs=runs) -> tuple[float, float]:  # type: ignore[no-untyped-def]  # bound now
            done = [run(one, preset, model) for one in runs]
            return mean(one.tokens_per_s for one in done), mean(one.preemptions for one in done)

        aware = speed(arm("aware", batching={"seats": 256}, limit={"memory_aware": True, "most": 256}))
        fixed = {seats: speed(arm(f"fixed-{seats}", batching={"seats": seats})) for seats in (32, 64, 256)}
        best = max(fixed, key=lambda seats: fixed[seats][0])
        kv = f"KV of {kv_tokens} tokens"
        tight = "no fixed limit of a fine grid does better than 1.073 here" if kv_tokens == 3200 else ""
        yield Goal("G6", f"{kv}: tokens/s, memory-aware : 256 seats", 1.08, aware[0] / fixed[256][0], why=tight)
        yield Goal(
            "G6", f"{kv}: preemptions, memory-aware : 256 seats", 0.25, aware[1] / max(fixed[256][1], 1), most=True
        )
        what = f"{kv}: tokens/s, memory-aware : best of 32/64/256 ({best})"
        yield Goal(
            "G6", what, 0.98, aware[0] / fixed[best][0], why="after KV pressure the governor keeps it low for a while"
        )
