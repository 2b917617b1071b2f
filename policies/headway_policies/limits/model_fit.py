"""How many seats, by a fitted model of the step time?

The step time is fitted online (step_time). Prefill work is fed forward: what runs brings r prompt tokens a step for
each running sequence, so n seats cost

    step(n) = base + n * (sequence + prefill_token * r)

and the proposal is the n where that is the set point. In a steady stream r = mean prompt / mean output; here it is what
the engine was seen to compute, which shows a new mix before the first of it has ended and counts no cached prompt.
An interval in which the crowd grew may lower r, not raise it: filling seats brings prompts at once that a steady stream
spreads out. Each interval first moves all that was learnt ``_SPEED_WEIGHT`` of the way to the speed it shows: an engine
that slows down is followed at once, while the shape of the model fades slowly.

Weak spots: as step_time's; and r lags a new mix by a few intervals and by what is left of the old one: long prompts
after short ones take about ten seconds, while all other changes take five.
"""

from __future__ import annotations

from headway_policies.limits.interval import Interval
from headway_policies.limits.limit import LimitSettings
from headway_policies.limits.step_time import StepTimeFit

_FORGETTING = 0.98
_SPEED_WEIGHT = 0.3
_MIX_WEIGHT = 0.25
_BAND_RATIO = 0.03
_PROBE_RATIO = 0.9
_MAX_SEATS = 65_536


class ModelFit:
    """Remembers the fit, and the mix of late."""

    def __init__(self, settings: LimitSettings, fixed: int) -> None:
        self._set_point_s = settings.set_point_ratio * settings.inter_token_slo_ms / 1000
        self._fit = StepTimeFit(_FORGETTING)
        self._model = self._fit.solve()
        self._seat_tokens: float | None = None
        self._taken = 0.0

    def propose(self, seen: Interval, allowed: int) -> int:
        """The seats that meet the set point; ``allowed`` while within a few per cent of them.

        There it tries one seat more while tokens come well before their time: a model that has seen one number of
        seats only takes the base for a cost of the seats, and would call that number right for ever.
        """
        if seen.inter_token_s is None or seen.running <= 0:
            return allowed
        if not seen.preemptions:  # the times between tokens hold a wait then, not only steps
            self._learn(seen.running, seen.prefill_tokens, seen.inter_token_s)
        model = self._model
        seat_s = model.sequence_s + model.prefill_token_s * self._mix(seen)
        room_s = self._set_point_s - model.base_s
        if seat_s <= 0:  # more seats have cost nothing so far
            return allowed + max(1, allowed // 8) if room_s > 0 else allowed // 2
        seats = room_s / seat_s
        band = max(0.5, _BAND_RATIO * allowed)
        if abs(seats - allowed - 0.5) >= 0.5 + band:
            return int(max(0.0, min(seats, _MAX_SEATS)))
        return allowed + (seen.inter_token_s < _PROBE_RATIO * self._set_point_s)

    def _mix(self, seen: Interval) -> float:
        """Prompt tokens a step that each running sequence brings; more of them only from a crowd that did not grow."""
        now, before = seen.prefill_tokens / seen.running, self._seat_tokens
        grew = seen.seats_taken > 1.02 * self._taken + 0.5
        self._taken = seen.seats_taken
        if before is None:
            self._seat_tokens = now
        elif now < before or not grew:
            self._seat_tokens = before + _MIX_WEIGHT * (now - before)
        return self._seat_tokens or 0.0

    def _learn(self, running: float, prefill_tokens: float, step_s: float) -> None:
        predicted_s = self._model.step_s(running, prefill_tokens)
        if predicted_s > 0:
            self._fit.scale(1 + _SPEED_WEIGHT * (step_s / predicted_s - 1))
        self._fit.add(running, prefill_tokens, step_s)
        self._model = self._fit.solve()
