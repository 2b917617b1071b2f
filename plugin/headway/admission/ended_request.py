"""The end of one request, as the metrics count it."""

from __future__ import annotations

from typing import NamedTuple

from headway_policies import Outcome, Usage
from headway_policies.request import PriorityClass


class EndedRequest(NamedTuple):
    """How one request ended, and what it took, in seconds; None where it did not come so far, or nothing is known.

    ``terms`` are those of its class when it ended. ``first_token_s`` and ``total_s`` count from its arrival,
    ``decode_s`` from its first token to its last one in the engine. ``pace_s`` is the mean time between two of its
    tokens, 0 where it is not known. ``finish_reasons``: the engine's own, one for each sequence that it reported.
    """

    class_name: str
    outcome: Outcome
    terms: PriorityClass | None
    dispatched: bool
    first_token_s: float | None
    decode_s: float | None
    total_s: float
    pace_s: float
    usage: Usage | None
    finish_reasons: tuple[str, ...] = ()
