"""Who goes next?

``StrictOrder``: the most urgent class first, first come first served inside it. Its known weak spot: a constant
stream of urgent requests starves the classes below for as long as it lasts; only their queue time-out ends the wait.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Protocol

from headway_policies.ticket import Ticket


class Order(Protocol):
    """A line of waiting tickets. Every operation but iteration is O(1) in the number waiting."""

    def push(self, ticket: Ticket, class_name: str) -> None:
        """Put a ticket at the end of its class."""
        ...

    def head(self) -> Ticket | None:
        """The ticket to go next, or None."""
        ...

    def remove(self, ticket_id: int) -> Ticket | None:
        """Take a ticket out, wherever it stands; None when it is not here."""
        ...

    def waiting(self, class_name: str) -> int:
        """How many wait in a class."""
        ...

    def oldest(self) -> Iterator[Ticket]:
        """The longest-waiting ticket of each class that has one."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Ticket]:
        """All waiting tickets in the order they would go."""
        ...


class StrictOrder:
    """Strict priority between classes, FIFO inside a class."""

    def __init__(self, priorities: Mapping[str, int]) -> None:
        ranked = sorted(priorities, key=lambda name: -priorities[name])
        self._lines: dict[str, OrderedDict[int, Ticket]] = {name: OrderedDict() for name in ranked}
        self._line_of: dict[int, OrderedDict[int, Ticket]] = {}

    def push(self, ticket: Ticket, class_name: str) -> None:
        """Put a ticket at the end of its class."""
        line = self._lines[class_name]
        line[ticket.id] = ticket
        self._line_of[ticket.id] = line

    def head(self) -> Ticket | None:
        """The oldest ticket of the most urgent class that has one."""
        for line in self._lines.values():
            if line:
                return next(iter(line.values()))
        return None

    def remove(self, ticket_id: int) -> Ticket | None:
        """Take a ticket out, wherever it stands."""
        line = self._line_of.pop(ticket_id, None)
        return None if line is None else line.pop(ticket_id)

    def waiting(self, class_name: str) -> int:
        """How many wait in a class."""
        return len(self._lines[class_name])

    def oldest(self) -> Iterator[Ticket]:
        """The longest-waiting ticket of each class that has one."""
        return (next(iter(line.values())) for line in self._lines.values() if line)

    def __len__(self) -> int:
        return len(self._line_of)

    def __iter__(self) -> Iterator[Ticket]:
        for line in self._lines.values():
            yield from line.values()
