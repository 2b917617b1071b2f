"""Running means of prompt and output length."""

from __future__ import annotations

import math

from headway_policies.request import Usage

_WEIGHT = 0.02


class SizeStats:
    """Exponential means of a sequence's prompt and output, in tokens, over about the last fifty requests."""

    def __init__(self) -> None:
        self.prompt_tokens = 0.0
        self.output_tokens = 0.0
        self._square = 0.0
        self._samples = 0

    def add(self, sequences: int, usage: Usage) -> None:
        """Learn from a request that ended with so many sequences."""
        prompt_tokens, output_tokens = usage.prompt_tokens / sequences, usage.output_tokens / sequences
        self._samples += 1
        weight = max(_WEIGHT, 1 / self._samples)
        self.prompt_tokens += weight * (prompt_tokens - self.prompt_tokens)
        self.output_tokens += weight * (output_tokens - self.output_tokens)
        self._square += weight * ((prompt_tokens + output_tokens) ** 2 - self._square)

    @property
    def deviation_tokens(self) -> float:
        """Standard deviation of prompt + output."""
        mean = self.prompt_tokens + self.output_tokens
        return math.sqrt(max(0.0, self._square - mean * mean))
