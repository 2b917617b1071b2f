"""What if an order of somebody else's goes wrong?

A policy of your own decides who goes next; it does not own who waits. The guarded order keeps its own books of that,
answers from them what needs no opinion, and asks the other only who is next, who is worst and who is oldest. When that
one raises, or names somebody who does not wait or may not go, or nobody while somebody may, it is not asked again: an
order of ours goes on with everybody who waits. What the other had booked is forgotten; only the corrections of those
who were running still come. So the law of the desk holds whatever a policy does, short of not returning.
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
    """What an order was told of one who waits."""

    ticket: Ticket
    class_name: str
    tokens: float
    pushed_s: float


class SafeOrder:
    """``order`` until it goes wrong, and from then on what ``make_default`` makes.

    ``failed`` says how it went wrong, in a few words; None as long as it has not. Costs O(1) beside what the order in
    force costs, O(n log n) once, when it fails with n waiting.
    """

    def __init__(self, order: Order, classes: Mapping[str, PriorityClass], make_default: Callable[[], Order]) -> None:
        self.failed: str | None = None
        self._order = order
        self._classes = classes
        self._make_default = make_default
        self._places: dict[int, _Place] = {}
        self._waiting: Counter[str] = Counter()

    # ------------------------------------------------------------------ the books

    def push(self, ticket: Ticket, class_name: str, tokens: float, now_s: float) -> None:
        """Put a ticket into the line of a class."""
        if self._notify("push", lambda order: order.push(ticket, class_name, tokens, now_s)):
            self._order.push(ticket, class_name, tokens, now_s)
        self._places[ticket.id] = _Place(ticket, class_name, tokens, now_s)
        self._waiting[class_name] += 1

    def remove(self, ticket_id: int) -> Ticket | None:
        """Take a ticket out, wherever it stands."""
        place = self._places.pop(ticket_id, None)
        if place is None:
            return None
        self._waiting[place.class_name] -= 1
        self._notify("remove", lambda order: order.remove(ticket_id))
        return place.ticket

    def charge(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        """The ticket goes to the engine next."""
        if self._notify("charge", lambda order: order.charge(ticket, class_name, tokens)):
            self._order.charge(ticket, class_name, tokens)

    def correct(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        """The ticket has ended: book so many tokens more, or fewer, than were charged."""
        self._notify("correct", lambda order: order.correct(ticket, class_name, tokens))

    def waiting(self, class_name: str) -> int:
        """How many wait in a class."""
        return self._waiting[class_name]

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Ticket]:
        ranked = sorted(self._places.values(), key=lambda place: -self._classes[place.class_name].priority)
        return (place.ticket for place in ranked)

    # ------------------------------------------------------------------ the questions

    def head(self, now_s: float, excluded: Collection[str] = ()) -> Ticket | None:
        """The ticket to go next, none of a excluded class."""

        def wrong(ticket: Ticket | None) -> bool:
            if ticket is None:
                return any(self._waiting[name] for name in self._classes if name not in excluded)
            return not self._waits(ticket) or self._places[ticket.id].class_name in excluded

        return self._ask("head", lambda order: order.head(now_s, excluded), wrong)

    def worst_below(self, priority: int) -> Ticket | None:
        """The newest ticket of the least urgent class that has one, if that class is less urgent than ``priority``."""

        def wrong(ticket: Ticket | None) -> bool:
            if ticket is None:
                return any(self._waiting[name] for name, one in self._classes.items() if one.priority < priority)
            return not self._waits(ticket) or self._classes[self._places[ticket.id].class_name].priority >= priority

        return self._ask("worst_below", lambda order: order.worst_below(priority), wrong)

    def oldest(self) -> Iterator[Ticket]:
        """The longest-waiting ticket of each class that has one."""

        def wrong(tickets: list[Ticket]) -> bool:
            names = [self._places[one.id].class_name for one in tickets if self._waits(one)]
            return len(names) != len(tickets) or sorted(names) != sorted(+self._waiting)

        oldest: list[Ticket] = self._ask("oldest", lambda order: list(order.oldest()), wrong)
        return iter(oldest)

    # ------------------------------------------------------------------ inside

    def _waits(self, ticket: Ticket) -> bool:
        place = self._places.get(ticket.id)
        return place is not None and place.ticket is ticket

    def _ask(self, what: str, question: Callable[[Order], T], wrong: Callable[[T], bool]) -> T:
        """An answer that can be right: theirs, or else ours."""
        if self.failed is None:
            try:
                answer = question(self._order)
                if not wrong(answer):
                    return answer
                self._disable(f"{what} gave a wrong answer")
            except FAILURES as error:  # whatever a policy of somebody else's raises
                self._disable(f"{what} raised {type(error).__name__}")
        return question(self._order)

    def _notify(self, what: str, message: Callable[[Order], object]) -> bool:
        """Tell the order in force. True when it was theirs, and failed: ours has not heard it."""
        if self.failed is not None:
            message(self._order)
            return False
        try:
            message(self._order)
        except FAILURES as error:  # whatever a policy of somebody else's raises
            self._disable(f"{what} raised {type(error).__name__}")
            return True
        return False

    def _disable(self, why: str) -> None:
        """Ours takes over, with everybody who waits."""
        self.failed = why
        self._order = self._make_default()
        for place in self._places.values():
            self._order.push(place.ticket, place.class_name, place.tokens, place.pushed_s)
