"""A linear model of the duration of an engine step, fitted online.

step = base + sequence * running + prefill_token * prefill_tokens, the cost of continuous batching (weights are read
once a step; each sequence and each prompt token adds its share). The model is fitted by least squares with exponential
forgetting and no negative coefficient, on the 3 x 3 normal equations. Each solution is drawn a hundredth towards the
one before (proximal point algorithm; Rockafellar, SIAM J. Control 1976): what the samples separate is found within a
few of them, and what they do not (base and sequences, while the number running is constant) keeps its proportions.
Before the first solution the proportions are those of ``_SHAPE``, in which a sequence costs more than on most engines,
so that an early fit errs towards few seats.

Weak spots: the model is linear, although attention costs grow with the context; a fit from a narrow range of running
sequences is accurate there and an extrapolation elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_PULL = 0.01
#: The proportions of a first guess: a sequence, a prompt token, and the base.
_SHAPE = (1.0, 1.0, 16.0)


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

    def start_from(self, costs: StepTime) -> None:
        """Take these costs for the last solution: the proportions that the next one is drawn to."""
        self._costs = [costs.sequence_s, costs.prefill_token_s, costs.base_s]

    def scale(self, factor: float) -> None:
        """Scale all costs by ``factor``; their proportions stay."""
        self._targets = [factor * target for target in self._targets]
        self._costs = [factor * cost for cost in self._costs]

    def solve(self) -> StepTime:
        """The costs that fit best so far; all 0 without samples.

        Each solution is drawn a little towards the one before (a proximal step), and the first towards ``_SHAPE``.
        """
        products = [list(row) for row in self._products]
        targets, last = list(self._targets), self._costs
        if not any(last):
            last = self._first_guess()
        for i in range(3):
            pull = _PULL * products[i][i]
            products[i][i] += pull
            targets[i] += pull * last[i]
        self._costs = _non_negative(products, targets)
        sequence_s, prefill_token_s, base_s = self._costs
        return StepTime(base_s, sequence_s, prefill_token_s)

    def _first_guess(self) -> list[float]:
        """``_SHAPE`` at the size that fits the samples best."""
        shaped = sum(
            a * b * c for a, row in zip(_SHAPE, self._products, strict=True) for b, c in zip(row, _SHAPE, strict=True)
        )
        size = sum(a * b for a, b in zip(_SHAPE, self._targets, strict=True)) / shaped if shaped > 0 else 0.0
        return [size * cost for cost in _SHAPE]


def _non_negative(products: list[list[float]], targets: list[float]) -> list[float]:
    """The least squares without negative costs: a negative cost becomes 0, and the others are solved again."""
    free = [i for i in range(3) if products[i][i] > 0]
    while free:
        found = _solved([[products[i][j] for j in free] for i in free], [targets[i] for i in free])
        least = min(range(len(free)), key=lambda place: found[place])
        if found[least] >= 0:
            costs = [0.0, 0.0, 0.0]
            for i, cost in zip(free, found, strict=True):
                costs[i] = cost
            return costs
        del free[least]
    return [0.0, 0.0, 0.0]


def _solved(rows: list[list[float]], targets: list[float]) -> list[float]:
    """A positive definite system of at most three equations, by elimination; 0 for what rounding leaves no equation."""
    size = len(rows)
    table = [[*row, target] for row, target in zip(rows, targets, strict=True)]
    for i in range(size):
        for below in range(i + 1, size):
            factor = table[below][i] / table[i][i] if table[i][i] else 0.0
            table[below] = [value - factor * above for value, above in zip(table[below], table[i], strict=True)]
    found = [0.0] * size
    for i in reversed(range(size)):
        known = sum(table[i][j] * found[j] for j in range(i + 1, size))
        found[i] = (table[i][size] - known) / table[i][i] if table[i][i] else 0.0
    return found
