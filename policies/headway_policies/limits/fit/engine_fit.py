"""The step time of one engine, fitted from short intervals of its steps, whatever limit is in force.

step = base + running * (sequence + prefill_token * r), with the costs of ``step_time`` and r, the prompt tokens
computed in a step for each running sequence. In a steady stream r = mean prompt / mean output; here it is the observed
prefill work, which follows a new mix before its first request has ended and counts no cached prompt. An interval in
which more seats were taken may lower r, not raise it: filling seats computes many prompts at once that a steady stream
spreads out. Each interval first scales the costs ``_SPEED_WEIGHT`` of the way to the observed speed: a slowing engine
is followed at once, while the proportions fade slowly.

The fit belongs to the engine, not to a limit: it is learnt under a fixed number of seats too, and the next preset
starts from it. An interval that took three times as long as predicted is a pause of the machine and is dropped, unless
two more follow it. ``error_ratio`` is the mean of |predicted - measured| / measured of the recent intervals, each
compared before it was learnt.

Beside it every single step is fitted too (``steps``): what a prompt costs stands out there, where the means of an
interval blur it, so ``step_costs`` are right after some dozens of steps. Limits do not use them: a single step is late
for many reasons, and what they need is the mean.

Weak spots: those of ``step_time``; and r lags a new mix by a few intervals: long prompts after short ones take about
ten seconds, all other changes five.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headway_policies.limits.fit.step_profile import StepProfile
from headway_policies.limits.fit.step_time import StepTime, StepTimeFit
from headway_policies.limits.learnt import usable
from headway_policies.limits.limit import Interval, Load

_COSTS = ("base_s", "sequence_s", "prefill_token_s")
_MIX = "prefill_tokens_per_sequence"
_FORGETTING = 0.98
_SPEED_WEIGHT = 0.3
_MIX_WEIGHT = 0.25
_OUTLIER_RATIO = 3.0
_MAX_DROPPED = 2
_ERROR_WEIGHT = 0.05
_KNEE_RATIO = 2.0
_MIN_STEPS = 64
_MOST_EQUAL = 8


@dataclass(frozen=True, slots=True)
class Unloaded:
    """The engine's costs for one request alone: the time between two tokens, and that to the first one of a prompt."""

    token_s: float
    prefill_token_s: float

    def first_token_s(self, prompt_tokens: float) -> float:
        """The time to the first token of a prompt of this length, in seconds."""
        return self.token_s + self.prefill_token_s * prompt_tokens


class EngineFit:
    """The fitted costs and the recent prefill work for each sequence. ``most_running`` is the range of the fit.

    ``unloaded`` is what a request alone would take now; None while nothing is known.
    """

    def __init__(self) -> None:
        self._fit = StepTimeFit(_FORGETTING)
        self.costs = self._fit.solve()
        self.unloaded: Unloaded | None = None
        self.most_running = 0.0
        self.error_ratio: float | None = None
        self._recalled = False
        self._dropped = 0
        self._seat_tokens: float | None = None
        self._taken = 0.0
        self._steps = StepProfile()

    @property
    def unloaded_from(self) -> str:
        """The evidence behind ``unloaded``: single "steps", "intervals" of steps, or costs that were "recalled" from an
        earlier run; empty while nothing is known.
        """
        if self.unloaded is None:
            return ""
        if self._steps.samples:
            return "steps"
        return "recalled" if self.error_ratio is None else "intervals"

    def step(self, load: Load) -> None:
        """Fit one step more, or a few equal ones."""
        step_s = load.inter_token_s
        if step_s is None or load.preemptions or load.running <= 0:
            return
        times = min(load.steps, _MOST_EQUAL)
        self._steps.add(load.running, load.prefill_tokens, step_s, load.kv_usage_ratio, times=times)

    @property
    def step_costs(self) -> StepTime:
        """The costs by the single steps; by the intervals while few were seen."""
        return self.costs if self._steps.samples < _MIN_STEPS else self._steps.costs

    def learn(self, seen: Interval) -> None:
        """Fit one more interval; an interval with preemptions, whose times include a wait, fits no costs."""
        if seen.inter_token_s is None or seen.running <= 0:
            return
        if self._is_outlier(seen):
            return
        if not seen.preemptions:
            self._learn_costs(seen.running, seen.prefill_tokens, seen.inter_token_s)
            self.most_running = max(self.most_running, seen.running)
        self._learn_mix(seen)

    def seats(self, step_s: float, prompts_ratio: float = 1.0) -> float | None:
        """The running sequences at which a step takes so long, with this part of the prompts that come with them; None
        while they have cost nothing.
        """
        seat_s = self._seat_s(self.costs, prompts_ratio)
        return (step_s - self.costs.base_s) / seat_s if seat_s > 0 else None

    def seats_at(self, elasticity: float) -> float | None:
        """The running sequences at which one per cent more give so many per cent more tokens a second; None while
        nothing is known, or sequences have cost nothing.

        b sequences give b / (base + c b): the elasticity is base / (base + c b).
        """
        costs = self.step_costs
        seat_s = self._seat_s(costs)
        known = self.error_ratio is not None or self._recalled
        return costs.base_s * (1 / elasticity - 1) / seat_s if seat_s > 0 and known else None

    def doubling_gain(self, running: float) -> float | None:
        """The gain in tokens a second from twice as many sequences, as a share; None while nothing is known.

        b sequences give b / (base + c b): at twice as many, base / (base + 2 c b) more.
        """
        twice_s = self.costs.base_s + 2 * self._seat_s(self.costs) * running
        return self.costs.base_s / twice_s if self.error_ratio is not None and twice_s > 0 else None

    def knee_seats(self) -> float | None:
        """The knee of the throughput-latency curve: beyond it 10 % more tokens a second cost over 20 % more time
        between tokens. None while nothing is known, or sequences have cost nothing.

        A step of b sequences takes t = base + c b, and b / t tokens are made a second. Their relative growth is that of
        b times base / t, that of the step is that of b times c b / t: the second is twice the first at b = 2 base / c.
        """
        seat_s = self._seat_s(self.costs)
        known = self.error_ratio is not None or self._recalled
        return _KNEE_RATIO * self.costs.base_s / seat_s if seat_s > 0 and known else None

    def _seat_s(self, costs: StepTime, prompts_ratio: float = 1.0) -> float:
        """The cost of a sequence, with this part of the prompts that come with it."""
        return costs.sequence_s + prompts_ratio * costs.prefill_token_s * (self._seat_tokens or 0.0)

    def learnt(self) -> Mapping[str, float]:
        """The costs of a step and the prefill work for each sequence."""
        costs = {name: getattr(self.costs, name) for name in _COSTS}
        return {**costs, _MIX: self._seat_tokens or 0.0} if any(costs.values()) else {}

    def recall(self, learnt: Mapping[str, float]) -> None:
        """Continue from these costs: what new samples cannot tell apart keeps their proportions."""
        known = usable(learnt, (*_COSTS, _MIX))
        if known is None:
            return
        *costs, seat_tokens = known
        if StepTime(*costs).step_s(1, 0) > 0:  # nothing is learnt from a step that costs nothing
            self._seat_tokens = seat_tokens
            self.costs = StepTime(*costs)
            self._fit.start_from(self.costs)
            self._steps.start_from(self.costs)
            self._recalled = True
            self._unload()

    def _is_outlier(self, seen: Interval) -> bool:
        """Whether a step took far longer than predicted, and those right before it did not."""
        predicted_s = self.costs.step_s(seen.running, seen.prefill_tokens)
        far = 0 < _OUTLIER_RATIO * predicted_s < (seen.inter_token_s or 0.0) and self.error_ratio is not None
        self._dropped = self._dropped + 1 if far and self._dropped < _MAX_DROPPED else 0
        return self._dropped > 0

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
            error, before = abs(predicted_s / step_s - 1), self.error_ratio
            self.error_ratio = error if before is None else before + _ERROR_WEIGHT * (error - before)
            self._fit.scale(1 + _SPEED_WEIGHT * (step_s / predicted_s - 1))
        self._fit.add(running, prefill_tokens, step_s)
        self.costs = self._fit.solve()
        if self.error_ratio is not None or self._recalled:
            self._unload()

    def _unload(self) -> None:
        """The costs of a request alone, by the single steps where there are some, else by the intervals.

        A token takes time: where steps full of prompts leave nothing for it, the last figure stands.
        """
        costs, token_s = self.costs, self.costs.base_s + self.costs.sequence_s
        if self._steps.samples:
            costs, token_s = self._steps.costs, self._steps.token_s
        if token_s > 0:
            self.unloaded = Unloaded(token_s, costs.prefill_token_s)
