"""How long does an engine step take?

Model: step = base + sequence * running + prefill_token * prefill_tokens, the cost of continuous batching (weights are
read once a step; each sequence and each prompt token adds its share). It is fitted by least squares, older samples
fading, no coefficient negative: coordinate descent on the 3 x 3 normal equations, from the last solution on. A sweep
lowers the squared error or leaves it, so what the samples do not tell apart (base and sequences, while the number
running never moves) stays where it was instead of running away.

Weak spots: one straight line, although attention costs grow with the context; a fit from a narrow range of running
sequences is right there and a guess far away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepTime:
    """The three costs of a step, in seconds: its own, of each running sequence, of each prompt token computed."""

    base_s: float
    sequence_s: float
    prefill_token_s: float

    def step_s(self, running: float, prefill_tokens: float) -> float:
        """The predicted length of a step."""
        return self.base_s + self.sequence_s * running + self.prefill_token_s * prefill_tokens


class StepTimeFit:
    """Learns a StepTime from samples; each new one lets the older ones fade by ``forgetting``."""

    def __init__(self, forgetting: float = 1.0) -> None:
        self.samples = 0
        self._forgetting = forgetting
        self._products = [[0.0] * 3 for _ in range(3)]
        self._targets = [0.0] * 3
        self._costs = [0.0] * 3

    def add(self, running: float, prefill_tokens: float, step_s: float) -> None:
        """One sample: a step, or the means of a few. What is not a finite, positive time is ignored."""
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
        """All was ``factor`` times as slow as it seemed: what has been learnt keeps its shape at another speed."""
        self._targets = [factor * target for target in self._targets]
        self._costs = [factor * cost for cost in self._costs]

    def solve(self, sweeps: int = 10) -> StepTime:
        """The costs that fit best so far; all 0 without samples. More ``sweeps`` come closer to the exact optimum.

        The sequences are tried first: of a single sample they get all, so an early guess errs towards few seats.
        """
        costs = self._costs
        for _ in range(sweeps):
            for i, (products, target) in enumerate(zip(self._products, self._targets, strict=True)):
                if products[i] > 0:
                    error = target - products[0] * costs[0] - products[1] * costs[1] - products[2] * costs[2]
                    costs[i] = max(0.0, costs[i] + error / products[i])
        sequence_s, prefill_token_s, base_s = costs
        return StepTime(base_s, sequence_s, prefill_token_s)
