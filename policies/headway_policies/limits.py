"""How many seats may be taken now?

A limit computes a number; the desk enforces it (the split of Netflix's concurrency-limits).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Load:
    """What the engine reported for one step."""

    running: int
    waiting: int
    kv_usage_ratio: float
    step_tokens: int = 0


class Limit(Protocol):
    """Anything that says how many seats may be taken."""

    def seats(self) -> int:
        """The number of seats allowed now, at least 1."""
        ...

    def observe(self, load: Load, now_s: float) -> None:
        """Learn from one engine step."""
        ...


@dataclass(frozen=True, slots=True)
class FixedLimit:
    """Always the same number."""

    allowed: int

    def seats(self) -> int:
        """The number given."""
        return self.allowed

    def observe(self, load: Load, now_s: float) -> None:
        """A fixed limit learns nothing."""
