"""Faulty policies: each fails after a while, in its own way; a preset may name them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from headway_policies import StrictOrder, Ticket
from headway_policies.queueing.disciplines import Fifo

_PATIENCE = 6
_STRANGER = Ticket(-1, "normal", 0.0)


class FaultyOrder(StrictOrder):
    """Correct a few times, then permanently wrong: it raises, omits, or names a ticket that may not be dispatched."""

    _asked = 0

    def push(self, ticket: Ticket, class_name: str, tokens: float, now_s: float) -> None:
        """Raise, or forget the ticket."""
        if not self._wrong():
            super().push(ticket, class_name, tokens, now_s)
        elif self._asked % 2:
            raise ValueError("no more")

    def remove(self, ticket_id: int) -> Ticket | None:
        """Raise, or keep the ticket."""
        if not self._wrong():
            return super().remove(ticket_id)
        if self._asked % 2:
            raise KeyError(ticket_id)
        return None

    def charge(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        """Raise."""
        if self._wrong():
            raise ZeroDivisionError
        super().charge(ticket, class_name, tokens)

    def correct(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        """Raise."""
        if self._wrong():
            raise ZeroDivisionError
        super().correct(ticket, class_name, tokens)

    def head(self, now_s: float, excluded: Collection[str] = ()) -> Ticket | None:
        """Raise, or give no ticket, an unknown one, or a ticket of an excluded class."""
        if not self._wrong():
            return super().head(now_s, excluded)
        match self._asked % 4:
            case 0:
                raise IndexError
            case 1:
                return None
            case 2:
                return _STRANGER
        return super().head(now_s)

    def worst_below(self, priority: int) -> Ticket | None:
        """The best."""
        return next(iter(self), None) if self._wrong() else super().worst_below(priority)

    def oldest(self) -> Iterator[Ticket]:
        """Raise in the middle."""
        yield from super().oldest()
        if self._wrong():
            raise RuntimeError

    def _wrong(self) -> bool:
        self._asked += 1
        return self._asked > _PATIENCE


class FaultyLine(Fifo):
    """A discipline that raises from its fifth call on."""

    _asked = 0

    def head(self, now_s: float) -> Ticket:
        """Raise after a while."""
        self._asked += 1
        if self._asked > 4:
            raise LookupError
        return super().head(now_s)


class FaultyLimit:
    """A limit that raises from its second call on."""

    _asked = 0

    def __init__(self, limiting: object, fixed: int) -> None:
        self._fixed = fixed

    def propose(self, seen: object, allowed: int) -> int:
        """Raise after a while."""
        self._asked += 1
        if self._asked > 1:
            raise LookupError("no\nfigure")
        return self._fixed


class StumblingLimit(FaultyLimit):
    """A limit that raises at its second call only."""

    def propose(self, seen: object, allowed: int) -> int:
        """Raise once."""
        self._asked += 1
        if self._asked == 2:
            raise KeyError("inter_token_s")
        return self._fixed


class FaultyWindow:
    """A window that raises from its third question on."""

    _asked = 0

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s

    def length_s(self, gathered: object, now_s: float) -> float:
        """Raise after a while."""
        self._asked += 1
        if self._asked > 2:
            raise LookupError("no\nfigure")
        return self._longest_s / 2

    def arrived(self, seats: int, now_s: float) -> None:
        """Nothing to learn."""

    def batch_done(self, seats: int, duration_s: float, now_s: float) -> None:
        """Nothing to learn."""


class Unwilling:
    """Cannot be made."""

    def __init__(self, *_: object) -> None:
        raise RuntimeError("no\nlicence")


class Quitter(Fifo):
    """Ends the program, or so it thinks."""

    def head(self, now_s: float) -> Ticket:
        """Exit."""
        raise SystemExit(0)
