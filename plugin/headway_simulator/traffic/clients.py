"""The behaviour of impatient clients: they give up, cancel, and retry."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clients:
    """Ratios of all clients, drawn from the seed of the run.

    ``patience_s``: a client without a first token by then disconnects. ``cancel_ratio`` of them disconnect at a random
    moment of the first ``cancel_within_s``. A refused client retries up to ``retries`` times: after the Retry-After it
    was sent if it is one of ``obedient_ratio``, else after ``hasty_s``.
    """

    patience_s: float | None = None
    cancel_ratio: float = 0.0
    cancel_within_s: float = 10.0
    retries: int = 0
    obedient_ratio: float = 1.0
    hasty_s: float = 0.2
