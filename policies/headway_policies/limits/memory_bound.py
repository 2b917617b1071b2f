"""A bound on running sequences by KV cache capacity: Algorithm 1 of arXiv 2503.05248 (Pang, Li, Wang 2025).

The KV use of n sequences is approximately normal, with mean n * mu and variance n * sigma^2 (central limit theorem); it
should exceed eta, the capacity less a reserve, with a small probability only, theta standard deviations out. Solved for
n:

    n = ((sqrt(theta^2 sigma^2 + 4 eta mu) - theta sigma) / (2 mu))^2

mu is the observed KV use of a running sequence (KV in use / running), not the whole prompt and answer: sequences of all
ages run side by side, and the whole footprint would leave a third of the cache empty. sigma is that of whole sequences.

Where a preemption is cheap, which the fitted cost of a prompt token tells, a rare one is better than an empty part of
the cache: there eta is the whole capacity, unless the preset sets a reserve, and theta ``_CHEAP_THETA``.

Weak spots: without a known capacity sigma is ignored; and while many sequences have just begun, mu is too small, which
smoothing and the governor (fall on preemption and near full) compensate.
"""

from __future__ import annotations

import math

from headway_policies.limits.limit import Interval

_THETA, _CHEAP_THETA = 1.0, 0.5
_WEIGHT = 0.2
_MIN_RATIO = 1e-6  # with less in use there is no estimate


class MemoryBound:
    """Remembers the share of the KV cache that one running sequence holds."""

    def __init__(self) -> None:
        self._held_ratio = 0.0

    def observe(self, seen: Interval) -> None:
        """Learn the size of a sequence from an interval more."""
        if seen.running > 0 and seen.kv_usage_ratio > _MIN_RATIO:
            held_ratio = seen.kv_usage_ratio / seen.running
            weight = _WEIGHT if self._held_ratio else 1.0
            self._held_ratio += weight * (held_ratio - self._held_ratio)

    def recompute_s(self, seen: Interval, prefill_token_s: float) -> float | None:
        """The time to compute a preempted sequence anew, in seconds; None while its size is not known."""
        if not self._held_ratio or seen.kv_capacity_tokens is None:
            return None
        return self._held_ratio * seen.kv_capacity_tokens * prefill_token_s

    def seats(self, seen: Interval, usable_ratio: float, *, cheap: bool = False) -> int | None:
        """The largest number of sequences that fit into this part of the cache; None while nothing has run. ``cheap``:
        preemptions are.
        """
        if not self._held_ratio:
            return None
        theta = _CHEAP_THETA if cheap else _THETA
        spread_ratio = theta * seen.sequence_tokens_std / seen.kv_capacity_tokens if seen.kv_capacity_tokens else 0.0
        root = math.sqrt(spread_ratio**2 + 4 * usable_ratio * self._held_ratio)
        return int(((root - spread_ratio) / (2 * self._held_ratio)) ** 2)
