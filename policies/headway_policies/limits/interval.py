"""Means of the engine's steps over short intervals, on which limits are decided; a single step is noise.

An interval closes when it has seen enough steps with a time between tokens, or at the latest after ``_MAX_S`` with what
there is. Its length is a number of steps and not a time, so that a fast engine is followed as many times faster.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway_policies.limits.limit import Interval, Signals

_MIN_STEPS = 8
_MAX_S = 2.0


@dataclass(slots=True)
class _Sums:
    """Sums over the steps of an open interval."""

    opened_s: float
    steps: int = 0
    timed_steps: int = 0
    running: int = 0
    seats_taken: int = 0
    prefill_tokens: int = 0
    kv_usage_ratio: float = 0.0
    inter_token_s: float = 0.0
    preemptions: int = 0
    limited: bool = False
    next_seats: int = 1


class IntervalMeter:
    """Adds up steps to intervals. A time between tokens of ``stall_s`` or more is ignored."""

    def __init__(self, stall_s: float) -> None:
        self._stall_s = stall_s
        self._sums: _Sums | None = None

    def add(self, signals: Signals, now_s: float) -> Interval | None:
        """Add a step; returns the interval when this step closes it."""
        sums, load = self._sums, signals.load
        if sums is None:
            sums = self._sums = _Sums(now_s)
        sums.steps += load.steps
        sums.running += load.steps * load.running
        sums.seats_taken += load.steps * signals.seats_taken
        sums.prefill_tokens += load.steps * load.prefill_tokens
        sums.kv_usage_ratio += load.steps * load.kv_usage_ratio
        sums.preemptions += load.preemptions
        if signals.limited:
            sums.limited = True
        sums.next_seats = max(sums.next_seats, signals.next_seats)
        between_s = load.inter_token_s
        if between_s is not None and 0 < between_s < self._stall_s:
            sums.timed_steps += load.steps
            sums.inter_token_s += load.steps * between_s
        lasted_s = now_s - sums.opened_s
        if sums.timed_steps < _MIN_STEPS and lasted_s < _MAX_S:
            return None
        self._sums = _Sums(now_s)
        return _means(sums, signals, lasted_s)


def _means(sums: _Sums, last: Signals, lasted_s: float) -> Interval:
    return Interval(
        running=sums.running / sums.steps,
        seats_taken=sums.seats_taken / sums.steps,
        prefill_tokens=sums.prefill_tokens / sums.steps,
        kv_usage_ratio=sums.kv_usage_ratio / sums.steps,
        inter_token_s=sums.inter_token_s / sums.timed_steps if sums.timed_steps else None,
        preemptions=sums.preemptions,
        limited=sums.limited,
        queued=last.queued,
        kv_capacity_tokens=last.load.kv_capacity_tokens,
        prompt_tokens_mean=last.prompt_tokens_mean,
        output_tokens_mean=last.output_tokens_mean,
        sequence_tokens_std=last.sequence_tokens_std,
        gpu_busy_ratio=last.load.gpu_busy_ratio,
        pace_spread_ratio=last.pace_spread_ratio,
        unloaded_token_s=last.unloaded_token_s,
        next_seats=sums.next_seats,
        lasted_s=lasted_s,
    )
