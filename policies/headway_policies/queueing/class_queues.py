"""The queues of all classes: the common base of the orders, which only add ``head``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from headway_policies.queueing.disciplines import Discipline, Fifo
from headway_policies.request import PriorityClass, Ticket

#: Makes the discipline of a class from its terms.
MakeDiscipline = Callable[[PriorityClass], Discipline]


def fifo(terms: PriorityClass) -> Discipline:
    """First come, first served, whatever the class."""
    return Fifo()


@dataclass(slots=True, eq=False)
class ClassQueue:
    """The queue of one class. ``rank`` is 0 for the least urgent class."""

    name: str
    rank: int
    priority: int
    discipline: Discipline
    waiting: int = 0


class ClassQueues:
    """The queues of all classes, most urgent first. A larger ``priority`` is more urgent, below 0 too."""

    def __init__(self, classes: Mapping[str, PriorityClass], make_discipline: MakeDiscipline = fifo) -> None:
        ranked = sorted(classes, key=lambda name: classes[name].priority)
        self._queues = [
            ClassQueue(name, rank, classes[name].priority, make_discipline(classes[name]))
            for rank, name in enumerate(ranked)
        ][::-1]
        self._by_name = {one.name: one for one in self._queues}
        self._by_ticket: dict[int, ClassQueue] = {}

    def push(self, ticket: Ticket, class_name: str, tokens: float, now_s: float) -> None:
        """Add a ticket to the queue of a class."""
        one = self._by_name[class_name]
        one.discipline.push(ticket, tokens, now_s)
        one.waiting += 1
        self._by_ticket[ticket.id] = one

    def remove(self, ticket_id: int) -> Ticket | None:
        """Remove a ticket from any position."""
        one = self._by_ticket.pop(ticket_id, None)
        if one is None:
            return None
        one.waiting -= 1
        return one.discipline.remove(ticket_id)

    def charge(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        """Charge the ticket to the discipline of its class."""
        self._by_name[class_name].discipline.charge(ticket, tokens)

    def correct(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        """Correct the charge in the discipline of the class."""
        self._by_name[class_name].discipline.correct(ticket, tokens)

    def worst_below(self, priority: int) -> Ticket | None:
        """The newest of the least urgent class that has one."""
        for one in reversed(self._queues):
            if one.priority >= priority:
                return None
            if one.waiting:
                return one.discipline.newest()
        return None

    def waiting(self, class_name: str) -> int:
        """The number of waiting tickets of a class."""
        return self._by_name[class_name].waiting

    def ahead(self, class_name: str, tenant: str) -> int:
        """About how many tickets of a class go before a new one of a tenant; all under a custom discipline."""
        one = self._by_name[class_name]
        return one.discipline.ahead(tenant) if isinstance(one.discipline, Fifo) else one.waiting

    def oldest(self) -> Iterator[Ticket]:
        """The longest-waiting ticket of each class that has one."""
        return (ticket for one in self._queues if (ticket := one.discipline.oldest()) is not None)

    def heads(self, now_s: float, excluded: Collection[str] = ()) -> Iterator[tuple[str, Ticket]]:
        """(class, next ticket) of each class that has one and is not excluded, the most urgent class first."""
        for one in self._queues:
            ticket = one.discipline.head(now_s) if one.waiting and one.name not in excluded else None
            if ticket is not None:
                yield one.name, ticket

    def __len__(self) -> int:
        return len(self._by_ticket)

    def __iter__(self) -> Iterator[Ticket]:
        for one in self._queues:
            yield from one.discipline
