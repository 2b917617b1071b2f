"""The budget of one tenant or one organisation: bounds of its use, and the consequences where they are reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from types import MappingProxyType
from typing import Final, NamedTuple

from headway_policies.budgets.calendar import Calendar, Span


class Unit(StrEnum):
    """The unit of a bound. Tokens are those of prompts and answers, seat seconds the time of all sequences on seats."""

    REQUESTS = "requests"
    TOKENS = "tokens"
    SEAT_SECONDS = "seat_seconds"


class Bound(NamedTuple):
    """A unit in a span."""

    unit: Unit
    span: Span

    @property
    def name(self) -> str:
        """The name in a keys file, such as ``tokens_per_day``."""
        return f"{self.unit}_per_{self.span}"


BOUNDS: Final = tuple(Bound(unit, span) for unit, span in product(Unit, Span))


@dataclass(frozen=True, slots=True)
class Budget:
    """The bounds of one owner, in the periods of ``calendar``.

    ``concurrency`` is the most requests that wait or run. From ``soft_ratio`` of a bound on, requests get the least
    urgent class. ``borrows``: a tenant goes beyond its own bound as far as its organisation has more than the others
    still need. ``counts_only``: nothing is refused or lowered, only counted.
    """

    limits: Mapping[Bound, float] = field(default_factory=lambda: MappingProxyType({}))
    concurrency: int | None = None
    soft_ratio: float | None = None
    borrows: bool = False
    counts_only: bool = False
    calendar: Calendar = field(default_factory=Calendar)

    @property
    def binds(self) -> bool:
        """Whether anything can be refused or lowered by it."""
        return not self.counts_only and (bool(self.limits) or self.concurrency is not None)


@dataclass(frozen=True, slots=True)
class Owned:
    """A budget and its owner. ``members`` are the tenants of an organisation with their budgets; empty: a tenant."""

    name: str
    budget: Budget
    members: Mapping[str, Budget] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def label(self) -> str:
        """The owner in a message."""
        return f"organisation {self.name}" if self.members else f"tenant {self.name}"
