"""What the reasons of accepted misses quote, measured in the same run or on the model of its engine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean

from headway_policies import Preset
from headway_simulator import Summary, simulate, summarise
from headway_simulator.engine_model.capacity import ceiling
from headway_simulator.traffic.workload import WORKLOADS, Request
from serving.arms import fixed_at, stated
from serving.arrivals import workload_of
from serving.constants import Constants, Level
from serving.figures import middle
from serving.line import Point, line
from serving.results import Results

_SPAN_S = 300.0
_WARMUP_S = 30.0
_SEEDS = (1, 2, 3)
#: Numbers of seats that are tried, as multiples of those at the fluid ceiling.
_SEATS = (0.4, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0)


def step_costs(levels: Sequence[Level]) -> dict[str, float]:
    """The line through the times between tokens, in milliseconds."""
    base_s, seat_s = line([Point(one.clients, one.inter_token_s) for one in levels], "two or more concurrencies")
    return {"base_ms": 1000 * base_s, "seat_ms": 1000 * seat_s}


def urgent_alone(results: Results, workload: str, load: float) -> dict[str, float]:
    """What the realtime requests of a workload reach with nothing beside them, with the goodput that is left then, and
    beside the others.
    """
    constants = _constants(results)
    model, preset = constants.model, stated(constants.slo)
    runs = _arrivals(constants, workload, load)
    alone = _played(constants, preset, [[one for one in run if one.class_name == "realtime"] for run in runs])
    return {
        "alone": mean(one.all.attained_ratio for one in alone),
        "goodput": _goodput(alone) / _possible_per_s(constants, workload, load),
        "model": mean(one.classes["realtime"].attained_ratio for one in _played(constants, preset, runs)),
        "prompt_steps": model.prefill_s * _chat_tokens()[0] / (model.base_s + model.seat_s),
    }


def best_fixed(results: Results, load: float) -> dict[str, float]:
    """The goodput of W1 on the model of this engine as a share of the ceiling, and the best with a number of seats that
    is fixed and chosen afterwards.
    """
    constants = _constants(results)
    slo, most = constants.slo, _ceiling_seats(constants)
    runs, possible_per_s = _arrivals(constants, "W1", load), _possible_per_s(constants, "W1", load)
    tried = sorted({max(1, round(ratio * most)) for ratio in _SEATS})
    fixed = {seats: _goodput(_played(constants, fixed_at(slo, seats), runs)) / possible_per_s for seats in tried}
    best = max(fixed, key=fixed.__getitem__)
    model = _goodput(_played(constants, stated(slo), runs)) / possible_per_s
    return {"model": model, "fixed": fixed[best], "seats": best}


def protected(results: Results, load: float) -> dict[str, float]:
    """The realtime requests within both objectives, under the objectives and under vLLM's cap at its best."""
    own, theirs = (_attained(results, load, name) for name in ("objective", "cap"))
    return {"own": own, "theirs": theirs}


def few_seats(results: Results) -> dict[str, float]:
    """The sequences that run at the fluid ceiling of chat."""
    return {"seats": _ceiling_seats(_constants(results))}


def first_token_error(rounds: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The standard error of a difference of first tokens, the mean of several rounds, in milliseconds."""
    errors_s = [one.get("ttft_error_s", math.nan) for one in rounds]
    return {"error_ms": 1000 * math.sqrt(sum(error_s**2 for error_s in errors_s)) / max(len(errors_s), 1)}


def _constants(results: Results) -> Constants:
    assert results.constants is not None
    return results.constants


def _arrivals(constants: Constants, workload: str, load: float) -> list[Sequence[Request]]:
    arriving = workload_of(workload, load, _SPAN_S)
    model, slo = constants.model, constants.slo
    return [arriving.requests(_SPAN_S, seed, model=model, slo=slo, load=load) for seed in _SEEDS]


def _played(constants: Constants, preset: Preset, runs: Iterable[Sequence[Request]]) -> list[Summary]:
    model, slo = constants.model, constants.slo
    return [
        summarise(preset.name, simulate(one, preset, model), slo, warmup_s=_WARMUP_S, span_s=_SPAN_S) for one in runs
    ]


def _goodput(played: Iterable[Summary]) -> float:
    return mean(one.all.goodput_per_s for one in played)


def _possible_per_s(constants: Constants, workload: str, load: float) -> float:
    return workload_of(workload, load, _SPAN_S).rates_per_s(constants.model, constants.slo, 1.0)[0]


def _ceiling_seats(constants: Constants) -> int:
    return ceiling(constants.model, *_chat_tokens(), constants.slo).seats


def _chat_tokens() -> tuple[float, float]:
    """Mean prompt and answer of chat."""
    phase = WORKLOADS["W1"].phases[0]
    return phase.prompt.mean_tokens, phase.output.mean_tokens


def _attained(results: Results, load: float, arm: str) -> float:
    found = middle(one.attained("realtime") for one in results.of("W1", load, arm))
    return math.nan if found is None else found[0]
