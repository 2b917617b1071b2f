"""A limit from a fitted model of the step time (``step_time``).

Prefill work is fed forward: the running sequences bring r prompt tokens each to a step, so n seats cost

    step(n) = base + n * (sequence + prefill_token * r)

and the proposal is the n where that is the set point. In a steady stream r = mean prompt / mean output; here r is the
observed prefill work, which follows a new mix before its first request has ended and counts no cached prompt. An
interval in which more seats were taken may lower r, not raise it: filling seats computes many prompts at once that a
steady stream spreads out. Each interval first scales the model ``_SPEED_WEIGHT`` of the way to the observed speed: a
slowing engine is followed at once, while the shape of the model fades slowly.

While a limit falls no seat is given until as many have come free, and every class waits; most falls answer a few long
prompts that are over by then. So as long as the time between tokens keeps the SLO, the limit falls by a twelfth an
interval. (TCP halves its window with the same care: Proportional Rate Reduction, RFC 6937.)

Weak spots: those of ``step_time``; and r lags a new mix by a few intervals: long prompts after short ones take about
ten seconds, all other changes five.
"""

from __future__ import annotations

from collections.abc import Mapping

from headway_policies.limits.interval import Interval
from headway_policies.limits.learnt import usable
from headway_policies.limits.limit import LimitSettings
from headway_policies.limits.step_time import StepTime, StepTimeFit

_COSTS = ("base_s", "sequence_s", "prefill_token_s")
_MIX = "prefill_tokens_per_sequence"
_FORGETTING = 0.98
_SPEED_WEIGHT = 0.3
_MIX_WEIGHT = 0.25
_BAND_RATIO = 0.03
_PROBE_RATIO = 0.9
_FALL_RATIO = 1 / 12
_MAX_SEATS = 65_536


class ModelFit:
    """Holds the fit and the recent prefill work for each sequence."""

    def __init__(self, settings: LimitSettings, fixed: int) -> None:
        self._settings = settings
        self._fit = StepTimeFit(_FORGETTING)
        self._model = self._fit.solve()
        self._seat_tokens: float | None = None
        self._taken = 0.0

    def propose(self, seen: Interval, allowed: int) -> int:
        """The seats that meet the set point; ``allowed`` while within a few per cent of them.

        There it tries one seat more while the time between tokens is well below the set point: a model fitted at a
        single number of seats attributes the base cost to the seats, and would keep that number for ever.
        """
        if seen.inter_token_s is None or seen.running <= 0:
            return allowed
        if not seen.preemptions:  # else the times between tokens include a wait
            self._learn(seen.running, seen.prefill_tokens, seen.inter_token_s)
        model = self._model
        seat_s = model.sequence_s + model.prefill_token_s * self._mix(seen)
        set_point_s = self._settings.set_point_s(seen.pace_spread_ratio)
        room_s = set_point_s - model.base_s
        if seat_s <= 0:  # more seats have cost nothing so far
            return allowed + max(1, allowed // 8) if room_s > 0 else allowed // 2
        seats = room_s / seat_s
        band = max(0.5, _BAND_RATIO * allowed)
        if abs(seats - allowed - 0.5) >= 0.5 + band:
            breach = seen.inter_token_s > self._settings.inter_token_slo_ms / 1000
            least = 0.0 if breach else min(allowed - 1, (1 - _FALL_RATIO) * allowed)
            return int(max(least, min(seats, _MAX_SEATS)))
        return allowed + (seen.inter_token_s < _PROBE_RATIO * set_point_s)

    def learnt(self) -> Mapping[str, float]:
        """The costs of a step and the prefill work for each sequence."""
        costs = {name: getattr(self._model, name) for name in _COSTS}
        return {**costs, _MIX: self._seat_tokens or 0.0} if any(costs.values()) else {}

    def recall(self, learnt: Mapping[str, float]) -> None:
        """Continue from these costs: what new samples cannot tell apart keeps their proportions."""
        known = usable(learnt, (*_COSTS, _MIX))
        if known is not None and any(known[:-1]):
            *costs, self._seat_tokens = known
            self._model = StepTime(*costs)
            self._fit.start_from(self._model)

    def _mix(self, seen: Interval) -> float:
        """Prompt tokens a step for each running sequence; it grows only while the seats taken do not."""
        now, before = seen.prefill_tokens / seen.running, self._seat_tokens
        grew = seen.seats_taken > 1.02 * self._taken + 0.5
        self._taken = seen.seats_taken
        if before is None and not grew:
            self._seat_tokens = now
        elif before is not None and (now < before or not grew):
            self._seat_tokens = before + _MIX_WEIGHT * (now - before)
        return self._seat_tokens or 0.0

    def _learn(self, running: float, prefill_tokens: float, step_s: float) -> None:
        predicted_s = self._model.step_s(running, prefill_tokens)
        if predicted_s > 0:
            self._fit.scale(1 + _SPEED_WEIGHT * (step_s / predicted_s - 1))
        self._fit.add(running, prefill_tokens, step_s)
        self._model = self._fit.solve()
