"""The step time of one engine, fitted from short intervals of its steps, whatever limit is in force.

step = base + running * (sequence + prefill_token * r), with the costs of ``step_time`` and r, the prompt tokens
computed in a step for each running sequence. In a steady stream r = mean prompt / mean output; here it is the observed
prefill work, which follows a new mix before its first request has ended and counts no cached prompt. An interval in
which more seats were taken may lower r, not raise it: filling seats computes many prompts at once that a steady stream
spreads out. Each interval first scales the costs ``_SPEED_WEIGHT`` of the way to the observed speed: a slowing engine
is followed at once, while the proportions fade slowly.

The fit belongs to the engine, not to a limit: it is learnt under a fixed number of seats too, and the next preset
starts from it.

Weak spots: those of ``step_time``; and r lags a new mix by a few intervals: long prompts after short ones take about
ten seconds, all other changes five.
"""

from __future__ import annotations

from collections.abc import Mapping

from headway_policies.limits.interval import Interval
from headway_policies.limits.learnt import usable
from headway_policies.limits.step_time import StepTime, StepTimeFit

_COSTS = ("base_s", "sequence_s", "prefill_token_s")
_MIX = "prefill_tokens_per_sequence"
_FORGETTING = 0.98
_SPEED_WEIGHT = 0.3
_MIX_WEIGHT = 0.25


class EngineFit:
    """The fitted costs and the recent prefill work for each sequence. ``most_running`` is the range of the fit."""

    def __init__(self) -> None:
        self._fit = StepTimeFit(_FORGETTING)
        self.costs = self._fit.solve()
        self.most_running = 0.0
        self._seat_tokens: float | None = None
        self._taken = 0.0

    def learn(self, seen: Interval) -> None:
        """Fit one more interval; the costs not from one with preemptions, whose times include a wait."""
        if seen.inter_token_s is None or seen.running <= 0:
            return
        if not seen.preemptions:
            self._learn_costs(seen.running, seen.prefill_tokens, seen.inter_token_s)
            self.most_running = max(self.most_running, seen.running)
        self._learn_mix(seen)

    def seats(self, step_s: float, prompts_ratio: float = 1.0) -> float | None:
        """The running sequences at which a step takes so long, with this part of the prompts that come with them; None
        while they have cost nothing.
        """
        seat_s = self.costs.sequence_s + prompts_ratio * self.costs.prefill_token_s * (self._seat_tokens or 0.0)
        return (step_s - self.costs.base_s) / seat_s if seat_s > 0 else None

    def learnt(self) -> Mapping[str, float]:
        """The costs of a step and the prefill work for each sequence."""
        costs = {name: getattr(self.costs, name) for name in _COSTS}
        return {**costs, _MIX: self._seat_tokens or 0.0} if any(costs.values()) else {}

    def recall(self, learnt: Mapping[str, float]) -> None:
        """Continue from these costs: what new samples cannot tell apart keeps their proportions."""
        known = usable(learnt, (*_COSTS, _MIX))
        if known is not None and any(known[:-1]):
            *costs, self._seat_tokens = known
            self.costs = StepTime(*costs)
            self._fit.start_from(self.costs)

    def _learn_mix(self, seen: Interval) -> None:
        """Prompt tokens a step for each running sequence; they grow only while the seats taken do not."""
        now, before = seen.prefill_tokens / seen.running, self._seat_tokens
        grew = seen.seats_taken > 1.02 * self._taken + 0.5
        self._taken = seen.seats_taken
        if before is None and not grew:
            self._seat_tokens = now
        elif before is not None and (now < before or not grew):
            self._seat_tokens = before + _MIX_WEIGHT * (now - before)

    def _learn_costs(self, running: float, prefill_tokens: float, step_s: float) -> None:
        predicted_s = self.costs.step_s(running, prefill_tokens)
        if predicted_s > 0:
            self._fit.scale(1 + _SPEED_WEIGHT * (step_s / predicted_s - 1))
        self._fit.add(running, prefill_tokens, step_s)
        self.costs = self._fit.solve()
