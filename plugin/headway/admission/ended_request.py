"""The end of one request, as the metrics count it."""

from __future__ import annotations

from typing import NamedTuple

from headway_policies import Outcome, Usage


class EndedRequest(NamedTuple):
    """How one request ended, and what it took, in seconds; None where it did not come so far, or nothing is known.

    ``ttft_slo_s`` and ``inter_token_slo_s`` are the objectives of its class for a prompt of its length, on the engine
    as it was when the request ended: the numbers that the metrics show then. None where the class states none, or one
    that is relative to an engine that is not known yet. ``first_token_s`` and ``total_s`` count from its arrival,
    ``decode_s`` from its first token to its last one in the engine. ``pace_s`` is the mean time between two of its
    tokens, 0 where it is not known. ``finish_reasons``: the engine's own, one for each sequence that it reported.
    """

    class_name: str
    outcome: Outcome
    ttft_slo_s: float | None
    inter_token_slo_s: float | None
    dispatched: bool
    first_token_s: float | None
    decode_s: float | None
    total_s: float
    pace_s: float
    usage: Usage | None
    finish_reasons: tuple[str, ...] = ()
