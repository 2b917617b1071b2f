"""What arrives in a block: a named workload or a recorded trace, at a multiple of this engine's fluid ceiling.

``W1-60`` is the chat of W1 in which the realtime class offers 0.6 of the ceiling at every load; ``strategies``,
``lasting``, ``first-seconds`` and ``spinning`` are the chat of W1 for other arms or other times; ``long-prompts`` is
that chat with a long prompt now and then. The phases of a changing mix share the counted time of a block equally.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headway_simulator.engine_model.capacity import Slo
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.traffic.lengths import fixed
from headway_simulator.traffic.trace import Trace
from headway_simulator.traffic.traffic import mean_rate, of_trace
from headway_simulator.traffic.workload import WORKLOADS, Phase, Request, Workload
from serving.client import Answer
from serving.form import LONG_PROMPTS, SPINNING

TRACE = "trace"
#: How the lengths of a trace of a large service are scaled for a small engine, and the most that is left of one.
LENGTHS, MOST_TOKENS = 1 / 8, 512
_AS_W1 = ("strategies", "lasting", "first-seconds", SPINNING)
_URGENT = 0.6
#: Of ``long-prompts``: a prompt of more tokens is a long one.
CHAT_TOKENS, CHAT, LONG = 256, "chat", "long"
_LONG_PROMPTS = replace(WORKLOADS["W8"], name=LONG_PROMPTS)
_PART_S = 600.0  # of a trace, before its times are scaled: each round plays another part


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The requests of one block, and the fluid ceiling in requests a second."""

    requests: Sequence[Request]
    ceiling_per_s: float


def workload_of(name: str, load: float, count_s: float) -> Workload:
    """A named workload as it is played at this load. Raises KeyError."""
    if name == "W1-60":
        urgent = min(_URGENT, load)
        return replace(WORKLOADS["W1"], classes={"realtime": urgent, "normal": load - urgent})
    if name == LONG_PROMPTS:
        return _LONG_PROMPTS
    workload = WORKLOADS["W1" if name in _AS_W1 else name]
    if len(workload.phases) == 1:
        return workload
    length_s = count_s / len(workload.phases)
    return replace(workload, phases=tuple(replace(one, length_s=length_s) for one in workload.phases))


def shortened(trace: Trace) -> Trace:
    """A trace of a large service with lengths for a small engine."""
    return trace.scaled(lengths=LENGTHS, most_tokens=MOST_TOKENS)


def lengths_of(trace: Trace) -> Workload:
    """Requests of a trace's mean lengths: what the best cap for it is computed from."""
    phase = Phase(fixed(round(trace.prompt_tokens)), fixed(round(trace.output_tokens)))
    return replace(WORKLOADS["W1"], name=TRACE, phases=(phase,))


def arrivals(workload: Workload, load: float, number: int, block_s: float, *, model: EngineModel, slo: Slo) -> Arrivals:
    """The requests of round ``number``."""
    requests = workload.requests(block_s, 1 + number, model=model, slo=slo, load=load)
    return Arrivals(requests, mean_rate(workload, block_s, workload.rates_per_s(model, slo, 1.0)))


def by_length(answers: Sequence[Answer]) -> None:
    """Have answers counted by the length of their prompts, ``chat`` and ``long``, whatever class they were sent in."""
    for one in answers:
        one.class_name = CHAT if one.prompt_tokens <= CHAT_TOKENS else LONG


def recorded(trace: Trace, load: float, number: int, block_s: float, *, model: EngineModel, slo: Slo) -> Arrivals:
    """A part of a trace, its times scaled; the ceiling is that of the part's mean lengths."""
    begin_s = number * _PART_S % max(trace.span_s - _PART_S, 1.0)
    rows = [row._replace(at_s=row.at_s - begin_s) for row in trace.rows if begin_s <= row.at_s < begin_s + _PART_S]
    traffic = of_trace(replace(trace, rows=rows), 1 + number, model=model, slo=slo, duration_s=block_s, load=load)
    assert traffic.ceiling_per_s is not None
    return Arrivals(traffic.requests, traffic.ceiling_per_s)
