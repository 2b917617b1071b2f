"""A fit of a rising line to the most recent points.

Least squares of y = intercept + slope * x with exponential forgetting, on running means and second moments (West 1979),
so that no digits cancel. Neither coefficient can be negative: the slope is kept between 0 and mean y / mean x. While x
has not changed the slope is 0 and the intercept the mean of y. Weak spot: a single outlier distorts it until forgotten.
"""

from __future__ import annotations

import math


class LinearFit:
    """Learns a line from points with x, y >= 0; about the last ``memory`` of them count. All calls are O(1)."""

    def __init__(self, memory: int) -> None:
        self.samples = 0
        self.slope = 0.0
        self.intercept = 0.0
        self.error = 0.0  # mean of |y - fit|, each point compared before it was learnt
        self._memory = memory
        self._x = self._y = self._xx = self._xy = 0.0

    def add(self, x: float, y: float) -> None:
        """Add a point. A negative or non-finite one is ignored."""
        if not (x >= 0 and y >= 0 and math.isfinite(x + y)):
            return
        if self.samples:
            self.error += (abs(y - self.at(x)) - self.error) / min(self.samples, self._memory)
        self.samples += 1
        weight = 1 / min(self.samples, self._memory)
        dx, dy = x - self._x, y - self._y
        self._x += weight * dx
        self._y += weight * dy
        self._xx = (1 - weight) * (self._xx + weight * dx * dx)
        self._xy = (1 - weight) * (self._xy + weight * dx * dy)
        if self._xx > 1e-12 * self._x * self._x:
            self.slope = max(0.0, min(self._xy / self._xx, self._y / self._x))
        else:
            self.slope = 0.0
        self.intercept = max(0.0, self._y - self.slope * self._x)

    def fade(self, samples: int) -> None:
        """Bound the weight of the points so far to this number of points."""
        self.samples = min(self.samples, samples)

    def at(self, x: float) -> float:
        """The y of the line."""
        return self.intercept + self.slope * x
