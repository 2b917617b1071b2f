"""Policies that record what they get from the desk, for presets to name."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from headway_policies import StrictOrder, Ticket
from headway_policies.limits import Interval, LimitSettings, Signals


class RecordingOrder(StrictOrder):
    """Strict, and raises where time, length or tenant is missing.

    ``made`` counts those that were made, ``booked`` holds what was charged and corrected, by ticket.
    """

    made: ClassVar[int] = 0
    booked: ClassVar[list[tuple[int, float]]] = []

    def __init__(self, *terms: Any) -> None:
        super().__init__(*terms)
        RecordingOrder.made += 1

    def push(self, ticket: Ticket, class_name: str, tokens: float, now_s: float) -> None:
        """Put a ticket in."""
        _check(now_s, tokens)
        super().push(ticket, class_name, tokens, now_s)

    def head(self, now_s: float, excluded: Collection[str] = ()) -> Ticket | None:
        """The next."""
        _check(now_s)
        return super().head(now_s, excluded)

    def charge(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        """Book a ticket."""
        _check(tokens, ticket.id)
        self.booked.append((ticket.id, tokens))
        super().charge(ticket, class_name, tokens)

    def correct(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        """Book the rest of it."""
        _check(tokens, ticket.id)
        self.booked.append((ticket.id, tokens))
        super().correct(ticket, class_name, tokens)


class RecordingLimit:
    """As many seats as the preset has; ``observed`` are the signals of the one that was made last, with their times."""

    observed: ClassVar[list[tuple[Signals, float]]] = []

    def __init__(self, settings: LimitSettings, seats: int, ceiling: int | None, engine: object) -> None:
        self._seats = seats
        self.ceiling = ceiling
        self.why = "mine"
        RecordingLimit.observed = []

    def seats(self, now_s: float) -> int:
        """As many as the preset has, and one more with each ten seconds."""
        return self._seats + int(now_s // 10)

    proposed = seats

    def learnt(self) -> None:
        """Nothing."""

    def decide(self, signals: Signals, seen: Interval | None, now_s: float) -> None:
        """Write them down."""
        self.observed.append((signals, now_s))


def _check(*numbers: Any) -> None:
    if not all(isinstance(number, int | float) for number in numbers):
        raise TypeError(f"a number is missing: {numbers}")
