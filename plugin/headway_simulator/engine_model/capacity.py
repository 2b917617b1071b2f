"""The fluid ceiling: the most that any policy could serve within the objectives; loads and results are measured by it.

With ``b`` sequences in flight, requests of ``p`` prompt and ``o`` output tokens, an engine that spends A on a step, B
on a decoding sequence and C on a prompt token serves

    X(b) = 1 / (p C + o (A / b + B))    requests a second, at a mean time between tokens of    b / (o X(b))

and the ceiling is X at the largest b whose mean time between tokens stays at ``set_point_ratio`` of the objective.
Where contexts cost time, B holds that of a mean one: its prompt, and as many tokens of its answer as a mean answer has,
since long answers run for longer. A fluid has no variance: no real policy reaches the ceiling, and one that keeps the
objective cannot pass it for long.
The ceiling is that of the undisturbed engine, whatever its ``variation``: loads stay comparable between runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway_simulator.engine_model.engine import EngineModel

SET_POINT_RATIO = 0.95
_MAX_SEATS = 4096


@dataclass(frozen=True, slots=True)
class Slo:
    """The objectives a served request must keep: both of them count for goodput."""

    ttft_s: float = 1.0
    inter_token_s: float = 0.075


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The fluid optimum: requests a second, the sequences in flight, and the mean time between tokens."""

    requests_per_s: float
    seats: int
    inter_token_s: float


def ceiling(
    model: EngineModel,
    prompt_tokens: float,
    output_tokens: float,
    slo: Slo,
    set_point_ratio: float = SET_POINT_RATIO,
) -> Ceiling:
    """The ceiling for requests of these mean lengths. A single sequence is always allowed, whatever the objective."""
    most = min(model.max_num_seqs, _MAX_SEATS)
    best = _at(1, model, prompt_tokens, output_tokens)
    for seats in range(2, most + 1):
        one = _at(seats, model, prompt_tokens, output_tokens)
        if one.inter_token_s > set_point_ratio * slo.inter_token_s:
            break
        best = one
    return best


def _at(seats: int, model: EngineModel, prompt_tokens: float, output_tokens: float) -> Ceiling:
    seat_s = model.seat_s + model.context_s * (prompt_tokens + output_tokens) / model.kv_tokens
    request_s = prompt_tokens * model.prefill_s + output_tokens * (model.base_s / seats + seat_s)
    return Ceiling(1 / request_s, seats, seats * request_s / output_tokens)
