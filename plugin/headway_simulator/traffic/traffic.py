"""The traffic that all presets have to serve: a workload or a trace, for one engine and one objective."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headway_simulator.engine_model.capacity import Slo, ceiling
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.traffic.trace import Trace
from headway_simulator.traffic.workload import Request, Workload

_WARMUP_S = 30.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """The requests that all arms serve, and a description of them.

    ``span_s`` is None for a closed batch, which lasts as long as it takes; ``ceiling_per_s`` is None where the time to
    the first token of most requests is the wait for all the others.
    """

    words: str
    requests: Sequence[Request]
    span_s: float | None
    warmup_s: float
    ceiling_per_s: float | None


def of_workload(
    workload: Workload,
    duration_s: float,
    seed: int,
    *,
    model: EngineModel,
    slo: Slo,
    load: float | None = None,
) -> Traffic:
    """The first ``duration_s`` seconds of a named workload, for an engine of this model."""
    factor = workload.load if load is None else load
    requests = workload.requests(duration_s, seed, model=model, slo=slo, load=factor)
    if workload.closed:
        words = f"{workload.name}, {workload.summary}: {len(requests)} requests"
        return Traffic(words, requests, None, 0.0, None)
    ceiling_per_s = mean_rate(workload, duration_s, workload.rates_per_s(model, slo, 1.0))
    words = (
        f"{workload.name}, {workload.summary}; {factor:.15g} times the ceiling of {ceiling_per_s:.2f} requests/s: "
        f"{len(requests)} requests in {duration_s:.15g} s"
    )
    return Traffic(words, requests, duration_s, warmup_s_of(duration_s), ceiling_per_s)


def of_trace(
    trace: Trace,
    seed: int,
    *,
    model: EngineModel,
    slo: Slo,
    duration_s: float | None = None,
    load: float | None = None,
) -> Traffic:
    """A trace, with its times stretched or squeezed to a multiple of the ceiling where ``load`` is given."""
    ceiling_per_s = ceiling(model, trace.prompt_tokens, trace.output_tokens, slo).requests_per_s
    if load is not None and trace.rate_per_s:
        trace = trace.scaled(time=trace.rate_per_s / (load * ceiling_per_s))
    span_s = trace.span_s if duration_s is None else min(duration_s, trace.span_s)
    requests = trace.requests(seed, math.inf if duration_s is None else duration_s)
    words = (
        f"{trace.name}; {trace.rate_per_s / ceiling_per_s:.2f} times the ceiling of {ceiling_per_s:.2f} requests/s: "
        f"{len(requests)} requests in {span_s:.0f} s, prompts mean {trace.prompt_tokens:.0f}, "
        f"answers mean {trace.output_tokens:.0f} tokens"
    )
    if not span_s:
        return Traffic(words, requests, None, 0.0, None)
    return Traffic(words, requests, span_s, warmup_s_of(span_s), ceiling_per_s)


def warmup_s_of(span_s: float) -> float:
    """The unmeasured beginning: 30 s, of a short run a tenth."""
    return min(_WARMUP_S, span_s / 10)


def mean_rate(workload: Workload, duration_s: float, rates_per_s: Sequence[float]) -> float:
    """The mean over the time that each phase has of one round."""
    lengths_s = [min(phase.length_s, duration_s) for phase in workload.phases]
    served = sum(rate_per_s * length_s for rate_per_s, length_s in zip(rates_per_s, lengths_s, strict=True))
    return served / sum(lengths_s)
