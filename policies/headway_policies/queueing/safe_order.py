"""Protection against a custom order that fails.

A custom order decides which ticket is next; it does not own the waiting tickets. ``SafeOrder`` keeps its own records of
them, answers from these what needs no decision, and queries the custom order only for the head, the worst and the
oldest. When the custom order raises, names a ticket that does not wait or is excluded, or names none although one could
be dispatched, it is disabled: a built-in order continues with all waiting tickets. The charges of the custom order are
lost; only the corrections of running tickets still follow. So the desk's invariants hold whatever a custom policy does,
except that it never returns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from headway_policies.import_path import FAILURES
from headway_policies.queueing.order import Order
from headway_policies.request import PriorityClass, Ticket

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Place:
    """The arguments of ``push`` for a waiting ticket."""

    ticket: Ticket
    class_name: str
    tokens: float
    pushed_s: float


class SafeOrder:
    """``order`` until its first error, and from then on the order that ``make_default`` makes.

    ``failed`` describes the error in a few words; None: none. Adds O(1) to the cost of the order in force, and
    O(n log n) once, at an error with n waiting.
    """

    def __init__(self, order: Order, classes: Mapping[str, PriorityClass], make_default: Callable[[], Order]) -> None:
        self.failed: str | None = None
        self._order = order
        self._classes = classes
        self._make_default = make_default
        self._places: dict[int, _Place] = {}
        self._waiting: Counter[str] = Counter()

    # ------------------------------------------------------------------ records

    def push(self, ticket: Ticket, class_name: str, tokens: float, now_s: float) -> None:
        if self._notify("push", lambda order: order.push(ticket, class_name, tokens, now_s)):
            self._order.push(ticket, class_name, tokens, now_s)
        self._places[ticket.id] = _Place(ticket, class_name, tokens, now_s)
        self._waiting[class_name] += 1

    def remove(self, ticket_id: int) -> Ticket | None:
        place = self._places.pop(ticket_id, None)
        if place is None:
            return None
        self._waiting[place.class_name] -= 1
        self._notify("remove", lambda order: order.remove(ticket_id))
        return place.ticket

    def charge(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        if self._notify("charge", lambda order: order.charge(ticket, class_name, tokens)):
            self._order.charge(ticket, class_name, tokens)

    def correct(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        self._notify("correct", lambda order: order.correct(ticket, class_name, tokens))

    def waiting(self, class_name: str) -> int:
        return self._waiting[class_name]

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Ticket]:
        ranked = sorted(self._places.values(), key=lambda place: -self._classes[place.class_name].priority)
        return (place.ticket for place in ranked)

    # ------------------------------------------------------------------ decisions

    def head(self, now_s: float, excluded: Collection[str] = ()) -> Ticket | None:
        def wrong(ticket: Ticket | None) -> bool:
            if ticket is None:
                return any(self._waiting[name] for name in self._classes if name not in excluded)
            return not self._waits(ticket) or self._places[ticket.id].class_name in excluded

        return self._query("head", lambda order: order.head(now_s, excluded), wrong)

    def worst_below(self, priority: int) -> Ticket | None:
        def wrong(ticket: Ticket | None) -> bool:
            if ticket is None:
                return any(self._waiting[name] for name, terms in self._classes.items() if terms.priority < priority)
            return not self._waits(ticket) or self._classes[self._places[ticket.id].class_name].priority >= priority

        return self._query("worst_below", lambda order: order.worst_below(priority), wrong)

    def oldest(self) -> Iterator[Ticket]:
        def wrong(tickets: list[Ticket]) -> bool:
            names = [self._places[ticket.id].class_name for ticket in tickets if self._waits(ticket)]
            return len(names) != len(tickets) or sorted(names) != sorted(+self._waiting)

        oldest: list[Ticket] = self._query("oldest", lambda order: list(order.oldest()), wrong)
        return iter(oldest)

    # ------------------------------------------------------------------ helpers

    def _waits(self, ticket: Ticket) -> bool:
        place = self._places.get(ticket.id)
        return place is not None and place.ticket is ticket

    def _query(self, what: str, question: Callable[[Order], T], wrong: Callable[[T], bool]) -> T:
        """A valid answer: the custom order's, or else the default order's."""
        if self.failed is None:
            try:
                answer = question(self._order)
                if not wrong(answer):
                    return answer
                self._disable(f"{what} gave a wrong answer")
            except FAILURES as error:  # a custom policy may raise anything
                self._disable(f"{what} raised {type(error).__name__}")
        return question(self._order)

    def _notify(self, what: str, message: Callable[[Order], object]) -> bool:
        """Notify the order in force. True when the custom order failed: the default order was not notified."""
        if self.failed is not None:
            message(self._order)
            return False
        try:
            message(self._order)
        except FAILURES as error:  # a custom policy may raise anything
            self._disable(f"{what} raised {type(error).__name__}")
            return True
        return False

    def _disable(self, why: str) -> None:
        """Replace the custom order by the default one, with all waiting tickets."""
        self.failed = why
        self._order = self._make_default()
        for place in self._places.values():
            self._order.push(place.ticket, place.class_name, place.tokens, place.pushed_s)
