"""The protocol of an order: which waiting ticket is dispatched next, across all classes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

from headway_policies.request import Ticket


class Order(Protocol):
    """The waiting tickets of all classes. No operation but iteration may cost more than O(log n) in their number."""

    def push(self, ticket: Ticket, class_name: str, tokens: float, now_s: float) -> None:
        """Add a ticket to the queue of a class; ``tokens`` is what it is expected to use in total."""
        ...

    def head(self, now_s: float, excluded: Collection[str] = ()) -> Ticket | None:
        """The ticket to dispatch next, from the classes that are not excluded; None when there is none."""
        ...

    def remove(self, ticket_id: int) -> Ticket | None:
        """Remove a ticket from any position; None when it is not here."""
        ...

    def charge(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        """The ticket, still in the queue, is dispatched next: charge what it is expected to use."""
        ...

    def correct(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        """The ticket has ended, or waits again: charge so many tokens more (below 0: fewer; 0: its use is unknown)."""
        ...

    def worst_below(self, priority: int) -> Ticket | None:
        """The newest ticket of the least urgent class that has one, if that class is less urgent than ``priority``."""
        ...

    def waiting(self, class_name: str) -> int:
        """The number of waiting tickets of a class."""
        ...

    def oldest(self) -> Iterator[Ticket]:
        """The longest-waiting ticket of each class that has one."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Ticket]:
        """All waiting tickets, class by class from the most urgent, in the order they were added."""
        ...
