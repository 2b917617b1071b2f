"""A linear model of the duration of an engine step, fitted online.

step = base + sequence * running + prefill_token * prefill_tokens, the cost of continuous batching (weights are read
once a step; each sequence and each prompt token adds its share). It is fitted by least squares with exponential
forgetting and no negative coefficient: coordinate descent on the 3 x 3 normal equations, starting at the last solution.
A sweep never raises the squared error, so what the samples cannot separate (base and sequences, while the number
running is constant) does not diverge.

Weak spots: the model is linear, although attention costs grow with the context; a fit from a narrow range of running
sequences is accurate there and an extrapolation elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepTime:
    """The three costs of a step, in seconds: fixed, for each running sequence, for each prompt token computed."""

    base_s: float
    sequence_s: float
    prefill_token_s: float

    def step_s(self, running: float, prefill_tokens: float) -> float:
        """The predicted duration of a step."""
        return self.base_s + self.sequence_s * running + self.prefill_token_s * prefill_tokens


class StepTimeFit:
    """Learns a StepTime from samples; each new one weights the older ones by ``forgetting``."""

    def __init__(self, forgetting: float = 1.0) -> None:
        self.samples = 0
        self._forgetting = forgetting
        self._products = [[0.0] * 3 for _ in range(3)]
        self._targets = [0.0] * 3
        self._costs = [0.0] * 3

    def add(self, running: float, prefill_tokens: float, step_s: float) -> None:
        """Add a sample: a step, or the means of a few. A time that is not finite and positive is ignored."""
        row = (running, prefill_tokens, 1.0)
        if not (step_s > 0 and math.isfinite(step_s + running + prefill_tokens)):
            return
        self.samples += 1
        for i, factor in enumerate(row):
            products = self._products[i]
            for j in range(3):
                products[j] = self._forgetting * products[j] + factor * row[j]
            self._targets[i] = self._forgetting * self._targets[i] + factor * step_s

    def scale(self, factor: float) -> None:
        """Scale all costs by ``factor``; their proportions stay."""
        self._targets = [factor * target for target in self._targets]
        self._costs = [factor * cost for cost in self._costs]

    def solve(self, sweeps: int = 10) -> StepTime:
        """The costs that fit best so far; all 0 without samples. More ``sweeps`` come closer to the exact optimum.

        The sequences are fitted first: a single sample is attributed to them, so an early fit errs towards few seats.
        """
        costs = self._costs
        for _ in range(sweeps):
            for i, (products, target) in enumerate(zip(self._products, self._targets, strict=True)):
                if products[i] > 0:
                    error = target - products[0] * costs[0] - products[1] * costs[1] - products[2] * costs[2]
                    costs[i] = max(0.0, costs[i] + error / products[i])
        sequence_s, prefill_token_s, base_s = costs
        return StepTime(base_s, sequence_s, prefill_token_s)
