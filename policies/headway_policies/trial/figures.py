"""The results of a class of requests in an interval: the figures that a forecast has too."""

from __future__ import annotations

from dataclasses import dataclass, fields

#: The class name of the figures of all classes together.
ALL = ""


@dataclass(frozen=True, slots=True)
class Served:
    """The figures of one class, or of all. Ratios are of the requests that ended, except those that clients
    cancelled.

    ``error_ratio`` counts failures and lost engines, ``refused_ratio`` refusals, ``timed_out_ratio`` requests that
    timed out, in the queue or in the engine. A time to first token counts when the token comes; a request that still
    waits for it counts with its age so far. The time between tokens is the mean of one answer. A figure is None where
    nothing was measured.
    """

    completed_ratio: float | None = None
    refused_ratio: float | None = None
    timed_out_ratio: float | None = None
    error_ratio: float | None = None
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    ttft_p99_s: float | None = None
    inter_token_p50_s: float | None = None
    inter_token_p95_s: float | None = None
    inter_token_p99_s: float | None = None
    tokens_per_s: float | None = None


#: The names of all figures.
FIGURES = tuple(field.name for field in fields(Served))
