"""The figures that an adaptive limit has learnt of its engine, in a form that outlives the process.

A new process starts where the last one was: at its seats, and with what the policy itself kept. Both are a start and no
more: the first intervals correct them as they would any limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Learnt:
    """The allowed seats, and the numbers by which the policy continues; no numbers for a policy without any."""

    seats: int
    policy: Mapping[str, float] = field(default_factory=dict)


@runtime_checkable
class Learns(Protocol):
    """A limit policy whose learnt figures can be kept, and taken over by a new one."""

    def learnt(self) -> Mapping[str, float]:
        """Finite numbers by name; empty where nothing has been learnt yet."""
        ...

    def recall(self, learnt: Mapping[str, float]) -> None:
        """Continue from another policy's learnt figures. Unknown names and unusable numbers are ignored."""
        ...


def usable(learnt: Mapping[str, float], names: Sequence[str]) -> list[float] | None:
    """The numbers of these names; None if a number is missing, negative or not finite."""
    numbers = [learnt.get(name, math.nan) for name in names]
    return numbers if all(math.isfinite(number) and number >= 0 for number in numbers) else None
