"""The lengths of prompts and answers in tokens, drawn from a seeded source, in one of four shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

Shape = Literal["fixed", "lognormal", "exponential", "bimodal"]


@dataclass(frozen=True, slots=True)
class Lengths:
    """A distribution of lengths in tokens, cut off at ``least`` and ``most``.

    ``mean_tokens`` is the mean before the cut. ``cv`` (standard deviation / mean) matters to ``lognormal`` only. Of a
    ``bimodal`` one, ``long_ratio`` of the lengths are ``long_tokens`` and the others ``short_tokens``.
    """

    mean_tokens: float
    cv: float = 0.0
    shape: Shape = "lognormal"
    least: int = 1
    most: int = 1_000_000
    short_tokens: int = 16
    long_tokens: int = 512
    long_ratio: float = 0.1

    def sampler(self, random: Random) -> Callable[[], int]:
        """A function that draws one length after another."""
        draw = self._shaped(random)
        return lambda: min(max(round(draw()), self.least), self.most)

    def _shaped(self, random: Random) -> Callable[[], float]:
        match self.shape:
            case "exponential":
                return lambda: random.expovariate(1 / self.mean_tokens)
            case "bimodal":
                return lambda: self.long_tokens if random.random() < self.long_ratio else self.short_tokens
            case "lognormal" if self.cv:
                sigma = math.sqrt(math.log1p(self.cv**2))
                mu = math.log(self.mean_tokens) - sigma**2 / 2
                return lambda: random.lognormvariate(mu, sigma)
            case _:
                return lambda: self.mean_tokens


def fixed(tokens: int) -> Lengths:
    """Always the same length."""
    return Lengths(tokens, shape="fixed")


def lognormal(mean_tokens: float, cv: float, least: int = 4, most: int = 512) -> Lengths:
    """Log-normal with this mean and coefficient of variation."""
    return Lengths(mean_tokens, cv, "lognormal", least, most)


def exponential(mean_tokens: float, most: int = 512) -> Lengths:
    """Exponential with this mean."""
    return Lengths(mean_tokens, 1.0, "exponential", 1, most)


def bimodal(short_tokens: int, long_tokens: int, long_ratio: float) -> Lengths:
    """Two lengths only."""
    mean_tokens = short_tokens + long_ratio * (long_tokens - short_tokens)
    return Lengths(
        mean_tokens, 1.0, "bimodal", short_tokens=short_tokens, long_tokens=long_tokens, long_ratio=long_ratio
    )
