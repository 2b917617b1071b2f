"""Between the classes, who goes next?

``StrictOrder``: the most urgent class first. Its known weak spot: a constant stream of urgent requests starves the
classes below for as long as it lasts; only their queue time-out ends the wait. ``AgeingOrder`` and ``WeightedOrder``
have a bound on it; each states its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from headway_policies.ageing import AgeingOrder
from headway_policies.class_lines import ClassLines
from headway_policies.classes import PriorityClass
from headway_policies.fairness import FairLine
from headway_policies.guarded_order import GuardedOrder
from headway_policies.lines import EdfLine, FifoLine, HrrnLine, Line
from headway_policies.named import find_class
from headway_policies.ticket import Ticket
from headway_policies.weighted import WeightedOrder


class Ordering(BaseModel):
    """``[ordering]`` of a preset: who goes next, between the classes and inside one.

    ``between``: ``strict``, ``ageing`` or ``weighted``; ``inside``: ``fifo``, ``edf``, ``hrrn`` or ``fair``. Either may
    be the import path ``package.module:Class`` of a policy of your own. ``ageing_step_s`` is how long a class has to
    wait to be as urgent as the next class above it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    between: str = Field(default="weighted", pattern=r"^(strict|ageing|weighted|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$")
    inside: str = Field(default="fair", pattern=r"^(fifo|edf|hrrn|fair|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$")
    ageing_step_s: float = Field(default=10.0, gt=0, le=86_400)


class Order(Protocol):
    """The waiting tickets of all classes. No operation but iteration may cost more than O(log n) in their number."""

    def push(self, ticket: Ticket, class_name: str, tokens: float, now_s: float) -> None:
        """Put a ticket into the line of a class; ``tokens`` is what it is expected to use in all."""
        ...

    def head(self, now_s: float, barred: Collection[str] = ()) -> Ticket | None:
        """The ticket to go next, none of a barred class; None when there is none."""
        ...

    def remove(self, ticket_id: int) -> Ticket | None:
        """Take a ticket out, wherever it stands; None when it is not here."""
        ...

    def charge(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        """The ticket, still in the line, goes to the engine next: book what it is expected to use."""
        ...

    def correct(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        """The ticket has ended: book so many tokens more (or fewer, below 0) than were charged."""
        ...

    def worst_below(self, priority: int) -> Ticket | None:
        """The newest ticket of the least urgent class that has one, if that class is less urgent than ``priority``."""
        ...

    def waiting(self, class_name: str) -> int:
        """How many wait in a class."""
        ...

    def oldest(self) -> Iterator[Ticket]:
        """The longest-waiting ticket of each class that has one."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Ticket]:
        """All waiting tickets, class by class from the most urgent, in the order they were put in."""
        ...


class StrictOrder(ClassLines):
    """Strict priority between classes."""

    def head(self, now_s: float, barred: Collection[str] = ()) -> Ticket | None:
        """The head of the most urgent class that has one."""
        for one in self._lines:
            if one.waiting and one.name not in barred:
                return one.line.head(now_s)
        return None


def make_line(inside: str, terms: PriorityClass) -> Line:
    """The line of a class. Raises ValueError when an import path leads nowhere."""
    match inside:
        case "fifo":
            return FifoLine()
        case "edf":
            return EdfLine(terms.timeouts())
        case "hrrn":
            return HrrnLine()
        case "fair":
            return FairLine()
    line: Line = find_class(inside)()
    return line


def make_order(ordering: Ordering, classes: Mapping[str, PriorityClass]) -> Order:
    """An empty order of these classes. Raises ValueError when an import path leads nowhere.

    A class of your own is called with ``classes`` and a function that makes the line of a class from its terms. What
    is not ours is guarded: when it goes wrong, the weighted order and fair lines take its place.
    """
    order = _order_as_named(ordering, classes)
    if not any(":" in name for name in (ordering.between, ordering.inside)):
        return order
    return GuardedOrder(order, classes, lambda: WeightedOrder(classes, partial(make_line, "fair")))


def _order_as_named(ordering: Ordering, classes: Mapping[str, PriorityClass]) -> Order:
    line_of = partial(make_line, ordering.inside)
    match ordering.between:
        case "strict":
            return StrictOrder(classes, line_of)
        case "ageing":
            return AgeingOrder(classes, line_of, ordering.ageing_step_s)
        case "weighted":
            return WeightedOrder(classes, line_of)
    order: Order = find_class(ordering.between)(classes, line_of)
    return order
