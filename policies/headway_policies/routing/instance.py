"""An instance: one engine of several, as a router sees it at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Protocol


class CachedPrefixes(Protocol):
    """The known state of an instance's prefix cache."""

    def matched_tokens(self, prefix: tuple[int, ...]) -> int:
        """The tokens of a prompt with these prefix hashes (``request/prefix``) that the instance probably holds."""
        ...


@dataclass(frozen=True, slots=True)
class Instance:
    """An engine: its ``seats`` (sequences at once) and how many of them are taken by ``running`` sequences.

    ``running`` above ``seats`` is possible: the limit was lowered, or a wide request overflowed. ``kv_use`` is the
    share of the KV cache in use, 0 to 1, ``kv_tokens`` its size, None where that is not known. ``weight`` multiplies
    the seats when loads are compared: an instance of weight 2 is as loaded as one of weight 1 with half as many
    running. ``classes`` are those that it is kept for, none: it is for all. Raises ValueError for numbers that make no
    sense.
    """

    name: str
    seats: int
    running: int
    kv_use: float = 0.0
    weight: float = 1.0
    prefixes: CachedPrefixes | None = None
    kv_tokens: int | None = None
    classes: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.seats < 0 or self.running < 0:
            raise ValueError(f"instance {self.name}: seats and running must not be negative")
        if not 0.0 <= self.kv_use <= 1.0:
            raise ValueError(f"instance {self.name}: kv_use must be between 0 and 1, not {self.kv_use}")
        if not 0.0 < self.weight < inf:
            raise ValueError(f"instance {self.name}: weight must be above 0 and finite, not {self.weight}")

    def kept_for(self, class_name: str) -> int:
        """1 where it is kept for this class, -1 where it is kept for others, else 0."""
        if not self.classes:
            return 0
        return 1 if class_name in self.classes else -1

    @property
    def free(self) -> int:
        """The seats that are free; 0 where more run than there are seats."""
        return self.seats - self.running if self.running < self.seats else 0

    @property
    def free_share(self) -> float:
        """1 less the running sequences for each weighted seat: 1 when idle; below 0 for a light one that is full."""
        return 1.0 - self.running / (self.seats * self.weight) if self.seats else -inf
